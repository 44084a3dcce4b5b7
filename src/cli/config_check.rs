//! `agent config check`: every check of boot, without a port or a database (06 section 7.6); with `--online` also what
//! only ManyChat knows (DEC-25).

use std::process::ExitCode;

use super::boot::{self, Loaded};
use super::{account, local_http};
use crate::config::{Rules, Warning};
use crate::manychat::AccountList;
use crate::{manychat, model};

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct CheckArguments {
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Ask ManyChat too, with MANYCHAT_API_TOKEN: whether the tags, fields and flows that are named exist
    #[arg(long)]
    online: bool,
}

/// Prints the result, then the warnings (CLI-61, CLI-62).
pub(super) fn run(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let mut loaded = boot::load()?;
    model::resolve(&loaded.settings.model)?;
    boot::check_manychat(&loaded.settings)?;
    if arguments.online {
        let found = ask_manychat(&loaded)?;
        loaded.warnings.extend(found);
    }
    let (folder, count) = (loaded.settings.config_dir.display(), loaded.warnings.len());
    let refused = arguments.strict && count > 0;
    match (refused, count) {
        (false, _) => println!("config check passed ({folder})"),
        (true, 1) => eprintln!("config check failed ({folder}): 1 warning, which --strict refuses"),
        (true, _) => eprintln!("config check failed ({folder}): {count} warnings, which --strict refuses"),
    }
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What ManyChat lacks, as far as it tells: a failure for what the service itself needs, warnings for the rest.
fn ask_manychat(loaded: &Loaded) -> anyhow::Result<Vec<Warning>> {
    let settings = &loaded.settings.manychat;
    let ask = |list| local_http::block_on(async { Ok(manychat::account_names(settings, list).await) });
    let tags = ask(AccountList::Tags)??;
    check_tags(&tags, &loaded.tenant.rules)?;
    let wanted = account::wanted(settings, loaded.tenant.tools.as_ref());
    let mut warnings = account::missing(&wanted, AccountList::Tags, &tags);
    for list in [AccountList::Fields, AccountList::Flows] {
        if !wanted.iter().any(|name| name.list == list) {
            continue;
        }
        warnings.extend(match ask(list)? {
            Ok(known) => account::missing(&wanted, list, &known),
            Err(error) => {
                vec![Warning::new("ManyChat", format!("its {} were not checked: {error}", list.noun()))]
            }
        });
    }
    println!(
        "ManyChat answers; names looked up: {}",
        wanted.len() + service_tags(&loaded.tenant.rules).len()
    );
    Ok(warnings)
}

/// Every one of them must exist in ManyChat: a tag that does not is refused when a person should be called.
fn check_tags(known: &[String], rules: &Rules) -> anyhow::Result<()> {
    let missing: Vec<String> = service_tags(rules)
        .iter()
        .filter(|(_, tag)| !known.iter().any(|name| name == tag))
        .map(|(key, tag)| format!("rules.json: {key}: ManyChat has no tag `{tag}`"))
        .collect();
    anyhow::ensure!(
        missing.is_empty(),
        "{}; create it in ManyChat under Settings, Tags, letter by letter as written here, or correct rules.json",
        missing.join("; ")
    );
    Ok(())
}

/// The tags the service itself adds or looks for, with the key that names them.
fn service_tags(rules: &Rules) -> Vec<(&'static str, &str)> {
    let handoff = rules.handoff.as_ref().map(|rule| ("handoff.tag", rule.tag.as_str()));
    let takeover = rules.takeover.as_ref().and_then(|rule| rule.tag.as_deref());
    handoff.into_iter().chain(takeover.map(|tag| ("takeover.tag", tag))).collect()
}
