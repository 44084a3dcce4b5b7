//! The commands of the `agent` binary, one file a command (06 section 7).
//! Owns: arguments, usage, exit codes, what is printed where, the order of boot.
//! Never: holds a rule that another door needs too; those live in the rooms below.

/// As the standard library's, for the commands below; a reader that has gone (`agent … | head`) must not make a command
/// panic, and what it did stays done.
macro_rules! print {
    ($($words:tt)*) => {
        $crate::cli::put(&mut ::std::io::stdout(), ::std::format_args!($($words)*))
    };
}
/// See [`print!`].
macro_rules! println {
    () => {
        $crate::cli::put(&mut ::std::io::stdout(), ::std::format_args!("\n"))
    };
    ($($words:tt)*) => {
        $crate::cli::put(&mut ::std::io::stdout(), ::std::format_args!("{}\n", ::std::format_args!($($words)*)))
    };
}
/// See [`print!`].
macro_rules! eprint {
    ($($words:tt)*) => {
        $crate::cli::put(&mut ::std::io::stderr(), ::std::format_args!($($words)*))
    };
}
/// See [`print!`].
macro_rules! eprintln {
    ($($words:tt)*) => {
        $crate::cli::put(&mut ::std::io::stderr(), ::std::format_args!("{}\n", ::std::format_args!($($words)*)))
    };
}

mod account;
mod boot;
mod bootstrap;
mod completions;
mod config_check;
mod contact;
mod database;
mod dev;
mod eval;
mod eval_compare;
mod eval_offline;
mod eval_output;
mod eval_record;
mod handoffs;
mod health;
mod local_http;
mod model_check;
mod open_files;
mod outbox;
mod process;
mod reload;
mod retention;
mod serve;
mod simulate;
mod tokens;
mod usage;
mod worker;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use uuid::Uuid;

use crate::domain::{visible, visible_lines};
use crate::telemetry;

/// Exit code of a wrong use (CLI-6).
const WRONG_USE: u8 = 2;
/// Longest wait for the reader of the log at the end of the process.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Prints, whoever reads. What came from a file, an argument or the network cannot drive the terminal.
fn put(out: &mut impl Write, words: fmt::Arguments<'_>) {
    let words = words.to_string();
    let _ = out.write_all(visible_lines(&words).as_bytes()).and_then(|()| out.flush());
}

/// An id on the command line.
fn id(text: &str) -> Result<Uuid, &'static str> {
    text.parse().map_err(|_| "an id is wanted as the lists and the log print it, a UUID such as 7d3f0a52-6f0e-4f5e-9a55-0c2b8f1d9e61")
}

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "agent",
    version,
    about = "Answers a business's customers on WhatsApp through ManyChat, and calls a person instead of guessing.",
    disable_help_subcommand = true,
    arg_required_else_help = false
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the HTTP server and the workers
    Serve(serve::ServeArguments),
    /// Run the workers without the HTTP server
    Worker,
    /// Set up the demo tenant where it is missing, then run everything for development
    Dev,
    /// Write the demo tenant and an offline .env where they are missing
    Bootstrap(bootstrap::BootstrapArguments),
    /// Send one message to a running local server, as ManyChat would
    Simulate(simulate::SimulateArguments),
    /// Ask a running server on this machine whether it is alive
    Health(health::HealthArguments),
    /// Check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run a suite of conversations through the current configuration and model
    Eval(eval::EvalArguments),
    /// Models
    #[command(subcommand)]
    Model(ModelCommand),
    /// Contact tokens
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Contacts who wait for a person
    #[command(subcommand)]
    Handoffs(HandoffsCommand),
    /// Replies that go later, and dead letters
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// All data of one contact
    #[command(subcommand)]
    Contact(ContactCommand),
    /// Data that is too old
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// Print a script that completes this command line in a shell
    Completions(completions::CompletionsArguments),
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Run every check of boot on environment and tenant files, then exit
    Check(config_check::CheckArguments),
}

#[derive(Subcommand, Debug)]
enum ModelCommand {
    /// Ask the configured models for a reply, a tool call and a look at a picture; costs a few hundred tokens
    Check(model_check::CheckArguments),
}

#[derive(Subcommand, Debug)]
enum TokensCommand {
    /// Issue a contact token to every recent contact that has none
    Backfill(tokens::BackfillArguments),
}

#[derive(Subcommand, Debug)]
enum HandoffsCommand {
    /// List who waits for a person, since when and why
    List(handoffs::ListArguments),
    /// Close a handoff; the service then removes the tag that called the person
    Close(handoffs::CloseArguments),
}

#[derive(Subcommand, Debug)]
enum OutboxCommand {
    /// List what is queued or dead
    List(outbox::ListArguments),
    /// Show one row, without its words
    Show(outbox::ShowArguments),
    /// Try dead rows again, with a fresh window
    Retry(outbox::ChangeArguments),
    /// Decide that dead rows are never sent
    Discard(outbox::ChangeArguments),
}

#[derive(Subcommand, Debug)]
enum ContactCommand {
    /// Print the ManyChat id of a conversation's contact, and nothing else
    Find(contact::FindArguments),
    /// Print everything that is stored about a contact, as JSON
    Export(contact::ExportArguments),
    /// Erase everything that is stored about a contact
    Erase(contact::EraseArguments),
}

#[derive(Subcommand, Debug)]
enum RetentionCommand {
    /// Delete what is older than retentionDays in rules.json
    Run(retention::RunArguments),
}

/// `agent eval` as a program of its own.
#[derive(Parser, Debug)]
#[command(
    name = "agent-eval",
    version,
    about = "Runs a suite of conversations through the current configuration and model."
)]
struct EvalProgram {
    #[command(flatten)]
    arguments: eval::EvalArguments,
}

/// Runs the command the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    run_with(|| {
        let words: Vec<OsString> = std::env::args_os().collect();
        parse(&words).map_or_else(|code| code, |arguments| conclude(dispatch(arguments.command)))
    })
}

/// Runs `agent eval` with the arguments of this process: the program `agent-eval`.
#[must_use]
pub fn run_eval() -> ExitCode {
    run_with(|| match EvalProgram::try_parse() {
        Ok(program) => conclude(eval::run(&program.arguments)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("{error}");
            ExitCode::from(WRONG_USE)
        }
    })
}

fn run_with(work: impl FnOnce() -> ExitCode) -> ExitCode {
    telemetry::install_panic_hook();
    install_tls_provider();
    let code = work();
    // A reader that has stopped must not keep the process from ending.
    let _ = telemetry::flush(LAST_LINES);
    code
}

/// Usage and unknown commands go to stderr with exit code 2; help and version to stdout with 0 (CLI-3, CLI-8).
fn parse(words: &[OsString]) -> Result<Arguments, ExitCode> {
    let usage = usage::usage(&Arguments::command());
    if words.len() < 2 {
        eprint!("{usage}");
        return Err(ExitCode::from(WRONG_USE));
    }
    let words = asked_for_help(words);
    let matches = Arguments::command().override_help(usage.clone()).try_get_matches_from(words);
    matches.and_then(|matches| Arguments::from_arg_matches(&matches)).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        ErrorKind::InvalidSubcommand => {
            let named =
                error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).unwrap_or_default();
            eprint!("Unknown command: {}\n\n{usage}", visible(&named));
            ExitCode::from(WRONG_USE)
        }
        _ => {
            eprint!("{error}");
            ExitCode::from(WRONG_USE)
        }
    })
}

/// `agent help …` is `agent … --help`, as other programs have it.
fn asked_for_help(words: &[OsString]) -> Vec<OsString> {
    match words {
        [program, help, command @ ..] if help == "help" => {
            let asked = std::iter::once(program).chain(command).cloned();
            asked.chain([OsString::from("--help")]).collect()
        }
        _ => words.to_vec(),
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Worker => worker::run(),
        Command::Dev => dev::run(),
        Command::Bootstrap(arguments) => bootstrap::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
        Command::Config(ConfigCommand::Check(arguments)) => config_check::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Model(ModelCommand::Check(arguments)) => model_check::run(&arguments),
        Command::Tokens(TokensCommand::Backfill(arguments)) => tokens::run(&arguments),
        Command::Handoffs(HandoffsCommand::List(arguments)) => handoffs::list(&arguments),
        Command::Handoffs(HandoffsCommand::Close(arguments)) => handoffs::close(&arguments),
        Command::Outbox(OutboxCommand::List(arguments)) => outbox::list(&arguments),
        Command::Outbox(OutboxCommand::Show(arguments)) => outbox::show(&arguments),
        Command::Outbox(OutboxCommand::Retry(arguments)) => outbox::retry(&arguments),
        Command::Outbox(OutboxCommand::Discard(arguments)) => outbox::discard(&arguments),
        Command::Contact(ContactCommand::Find(arguments)) => contact::find(&arguments),
        Command::Contact(ContactCommand::Export(arguments)) => contact::export(&arguments),
        Command::Contact(ContactCommand::Erase(arguments)) => contact::erase(&arguments),
        Command::Retention(RetentionCommand::Run(arguments)) => retention::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
    }
}

/// One line on stderr and exit code 1 for an error that ends a command (CLI-5).
fn conclude(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}

/// Must come before any HTTP client is built. A second call finds one installed and changes nothing.
fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-8: the definition of the command line is sound.
    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
        EvalProgram::command().debug_assert();
    }

    /// The front page's table has every command, and none that does not exist (CLI-3).
    #[test]
    fn the_readme_lists_every_command() {
        let readme = include_str!("../../README.md");
        let rows = readme.lines().filter(|line| line.starts_with("| `")).map(|line| {
            let cell = line.split('|').nth(1).unwrap();
            let words = cell.split('`').skip(1).step_by(2).map(|name| {
                name.split(' ').take_while(|word| !word.starts_with('<')).collect::<Vec<_>>().join(" ")
            });
            words.collect::<Vec<_>>()
        });
        // `handoffs list`, `close`: further names of a row follow the first one's group.
        let listed = rows.flat_map(|names| {
            let group = names[0].split_once(' ').map_or("", |(group, _)| group).to_owned();
            let full = |(index, name): (usize, &String)| {
                if index == 0 { name.clone() } else { format!("{group} {name}") }
            };
            names.iter().enumerate().map(full).collect::<Vec<_>>()
        });
        let mut listed: Vec<String> = listed.collect();
        let text = usage::usage(&Arguments::command());
        let commands = text.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let names = commands.lines().filter_map(|line| line.trim().split("  ").next());
        let mut existing: Vec<String> = names.map(ToOwned::to_owned).collect();
        listed.sort();
        existing.sort();
        assert_eq!(listed, existing);
    }

    /// Words of a page that deny a command which exists: they send its users away.
    fn denials(page: &str, text: &str, commands: &[String]) -> Vec<String> {
        let (mut section, mut found) = (false, Vec::new());
        // Words may be wrapped between two lines; a row of a table ends with its line.
        for paragraph in text.split("\n\n") {
            let line = paragraph.replace("|\n", "|. ").replace('\n', " ");
            if line.starts_with('#') {
                section = line.starts_with("## Not yet");
            }
            let sentences = line.split_inclusive(". ");
            for sentence in
                sentences.filter(|text| section || text.contains("(not yet)") || text.contains("not exist"))
            {
                let names = |name: &&String| {
                    let listed = page.ends_with("commands.md") && sentence.contains(&format!("`{name}`"));
                    listed
                        || sentence.contains(&format!("`agent {name}"))
                        || sentence.contains(&format!("`agent-{name}`"))
                };
                found.extend(commands.iter().filter(names).map(|name| format!("{page}: {name}: {sentence}")));
            }
        }
        found
    }

    /// What is built is not called missing: the guides, the specifications, the front page.
    #[test]
    fn no_page_denies_a_command_that_exists() {
        let commands: Vec<String> =
            Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let old = "## Not yet\n\n`eval`, `upgrade`: no.\n\n## Else\n\n6. *(not yet)* `agent\neval` plays. `agent serve` is.";
        assert_eq!(denials("specs/commands.md", old, &commands).len(), 2);
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        for folder in ["", "config", "docs", "specs", "evals"] {
            for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.ends_with(".md") && name != "CHANGELOG.md" {
                    let text = std::fs::read_to_string(entry.path()).unwrap();
                    found.extend(denials(&format!("{folder}/{name}"), &text, &commands));
                }
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
