//! `agent dev`: everything for the first minute (DEC-15).

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::boot::{self, Loaded};
use super::serve;
use crate::config::{self, Settings, demo};
use crate::domain::Provider;
use crate::http::MESSAGE_PATH;
use crate::playground;

/// Names of the variable that says where the process runs (DEC-1).
const WHERE: [&str; 2] = ["NODE_ENV", "AGENT_ENV"];

/// Prepares the directory, then serves with the playground and says how to talk to it.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    serve::run_with(load, |settings| {
        println!("{}", welcome(settings));
        open_browser(&playground::address(settings));
    })
}

fn load() -> anyhow::Result<Loaded> {
    let given = config::process_environment()?;
    refuse_production(&given.variables)?;
    for report in demo::write_missing(Path::new("."), &demo::config_dir(&given))? {
        println!("{report}");
    }
    // Once more: a `.env` may have been written just now.
    let mut environment = config::process_environment()?;
    environment.variables.insert("PLAYGROUND".to_owned(), "true".to_owned());
    boot::load_from(&environment)
}

/// Before anything is written: in production this command would only be a mistake (DEC-16).
fn refuse_production(variables: &BTreeMap<String, String>) -> anyhow::Result<()> {
    for name in WHERE {
        let production = variables.get(name).is_some_and(|value| value == "production");
        anyhow::ensure!(
            !production,
            "agent dev is for development and {name} is production: start the service with `agent serve`"
        );
    }
    Ok(())
}

/// The port of a command that is told nothing.
const USUAL_PORT: u16 = 3000;

/// How to reach the service. The secret stays in `.env`: no command prints one (CLI-9), so the line reads it there. The
/// playground's key is in its address, because this terminal is where its user reads it (DEC-16).
fn welcome(settings: &Settings) -> String {
    let page = playground::address(settings);
    // Another terminal may not have this one's PORT.
    let elsewhere = match settings.port {
        USUAL_PORT => String::new(),
        port => format!(" --url http://127.0.0.1:{port}"),
    };
    let address = format!("http://127.0.0.1:{}{MESSAGE_PATH}", settings.port);
    let model = settings.model.agent.as_string();
    let switch = match settings.model.agent.provider {
        Provider::Mock => {
            "a mock that needs no key
            for a real one write into .env, then start again:
              AGENT_MODEL=anthropic:claude-haiku-4-5
              ANTHROPIC_API_KEY=<your key>"
        }
        _ => "for one that needs no key set AGENT_MODEL=mock:demo in .env",
    };
    let manychat = match settings.manychat.api_token {
        Some(_) => "the real account of MANYCHAT_API_TOKEN: late replies go there, not to the playground",
        None => "a development account inside this process, until MANYCHAT_API_TOKEN is set",
    };
    let tools = match settings.config_dir.join("tools.json").exists() {
        true => "those of tools.json: ask for something to read, or how to pay",
        false => "none; to see the demo tenant's: agent bootstrap --tools, then start again",
    };
    format!(
        "
  The agent is running. Chat with it in the playground:

    {page}

  Webhook   {address}
  Try it    curl -s {address} \\
              -H \"Authorization: Bearer $(sed -n 's/^MANYCHAT_SHARED_SECRET=//p' .env)\" \\
              -H 'Content-Type: application/json' \\
              -d '{{\"subscriber_id\": \"1001\", \"text\": \"How much is the foundation course?\"}}'
  or        agent simulate{elsewhere} \"How much is the foundation course?\"
  Model     {model}, {switch}
  ManyChat  {manychat}
  Tools     {tools}
  Stop      Ctrl-C
"
    )
}

/// Shows the page where a person sits in front of a desktop; anywhere else the printed address has to do.
fn open_browser(address: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if !std::io::stdout().is_terminal() || !(desktop || cfg!(target_os = "macos")) {
        return;
    }
    let quiet = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // Without the program nothing opens, which the printed address makes good.
    if let Ok(mut child) = quiet {
        std::thread::spawn(move || child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DEC-16: refused in production, under either name of the variable.
    #[test]
    fn dev_is_refused_in_production() {
        let variables = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        for name in WHERE {
            let error = refuse_production(&variables(name, "production")).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("agent serve"), "{error}");
            assert!(refuse_production(&variables(name, "development")).is_ok());
        }
        assert!(refuse_production(&BTreeMap::new()).is_ok());
    }
}
