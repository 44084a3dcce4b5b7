//! `agent dev`: everything for the first minute (DEC-15).

use std::path::Path;
use std::process::ExitCode;

use super::{boot, serve};
use crate::config::{Settings, demo};
use crate::domain::Provider;
use crate::http::MESSAGE_PATH;

/// Prepares the directory, then serves and says how to talk to it.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    for report in demo::write_missing(Path::new("."))? {
        println!("{report}");
    }
    serve::run_with(boot::load()?, |settings| println!("{}", welcome(settings)))
}

/// How to reach the service. The secret stays in `.env`: no command prints one (CLI-9), so the line reads it there.
fn welcome(settings: &Settings) -> String {
    let address = format!("http://127.0.0.1:{}{MESSAGE_PATH}", settings.port);
    let model = settings.model.agent.as_string();
    let switch = match settings.model.agent.provider {
        Provider::Mock => "a mock that needs no key; for a real one set AGENT_MODEL and its key in .env",
        _ => "set AGENT_MODEL=mock:demo in .env for one that needs no key",
    };
    format!(
        "
  The agent is running.

  Webhook   {address}
  Model     {model} ({switch})
  Try it    agent simulate \"How much is the foundation course?\"
  or        curl -s {address} \\
              -H \"Authorization: Bearer $(sed -n 's/^MANYCHAT_SHARED_SECRET=//p' .env)\" \\
              -H 'Content-Type: application/json' \\
              -d '{{\"subscriber_id\": \"1001\", \"text\": \"How much is the foundation course?\"}}'
  Stop      Ctrl-C
"
    )
}
