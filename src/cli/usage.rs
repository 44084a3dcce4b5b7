//! Usage: every command on a line of its own, those of two words too (CLI-3).

use clap::Command;

/// The usage of the whole program.
pub(super) fn usage(program: &Command) -> String {
    let mut commands = Vec::new();
    collect(program, "", &mut commands);
    let width = commands.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: String = commands.iter().map(|(name, about)| format!("  {name:width$}  {about}\n")).collect();
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    let name = program.get_name();
    format!(
        "{about}\n\nUsage: {name} <command> [options]\n\nCommands:\n{lines}\nOptions:\n  -h, --help     Print help, \
         also after a command\n  -V, --version  Print version\n"
    )
}

/// The commands that do something, with the words that lead to them.
fn collect(command: &Command, prefix: &str, found: &mut Vec<(String, String)>) {
    for sub in command.get_subcommands() {
        let name = format!("{prefix}{}", sub.get_name());
        if !sub.is_subcommand_required_set() {
            found.push((name.clone(), sub.get_about().map(ToString::to_string).unwrap_or_default()));
        }
        collect(sub, &format!("{name} "), found);
    }
}
