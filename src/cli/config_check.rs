//! `agent config check`: every check of boot, without a port or a database (06 section 7.6); with `--online` also what
//! only ManyChat knows (DEC-25).

use std::process::ExitCode;

use super::{boot, local_http};
use crate::config::{ManyChatSettings, Rules};
use crate::{manychat, model};

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct CheckArguments {
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Ask ManyChat too, with MANYCHAT_API_TOKEN: whether the tags of handoff and takeover exist
    #[arg(long)]
    online: bool,
}

/// Prints the result, then the warnings (CLI-61, CLI-62).
pub(super) fn run(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let loaded = boot::load()?;
    model::resolve(&loaded.settings.model)?;
    if arguments.online {
        check_tags(&loaded.settings.manychat, &loaded.tenant.rules)?;
    }
    println!("config check passed ({})", loaded.settings.config_dir.display());
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    if arguments.strict && !loaded.warnings.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The tags the service itself adds or looks for, with the key that names them.
fn service_tags(rules: &Rules) -> Vec<(&'static str, &str)> {
    let handoff = rules.handoff.as_ref().map(|rule| ("handoff.tag", rule.tag.as_str()));
    let takeover = rules.takeover.as_ref().and_then(|rule| rule.tag.as_deref());
    handoff.into_iter().chain(takeover.map(|tag| ("takeover.tag", tag))).collect()
}

/// Every one of them must exist in ManyChat: a tag that does not is refused when a person should be called.
fn check_tags(settings: &ManyChatSettings, rules: &Rules) -> anyhow::Result<()> {
    let wanted = service_tags(rules);
    let known = local_http::block_on(async { Ok(manychat::tag_names(settings).await?) })?;
    let missing: Vec<String> = wanted
        .iter()
        .filter(|(_, tag)| !known.iter().any(|name| name == tag))
        .map(|(key, tag)| format!("rules.json: {key}: ManyChat has no tag `{tag}`"))
        .collect();
    anyhow::ensure!(
        missing.is_empty(),
        "{}; create it in ManyChat under Settings, Tags, letter by letter as written here, or correct rules.json",
        missing.join("; ")
    );
    println!("ManyChat answers; tags checked: {}", wanted.len());
    Ok(())
}
