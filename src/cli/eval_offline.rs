//! What `agent eval` reads before it runs: environment and tenant files as every command (EVAL-2), or all of it offline
//! with one word (07/MOCK-4).

use std::path::Path;

use super::boot::{self, Loaded};
use crate::config::{self, Environment, EvalSettings, Settings, Tenant, Warning, demo};

/// Variables that a boot requires and an offline run does not use; blank ones count as missing.
const PLACEHOLDERS: [(&str, &str); 3] = [
    ("PUBLIC_BASE_URL", "https://agent.example.com"),
    ("MANYCHAT_SHARED_SECRET", "not-used-by-an-offline-run"),
    ("DATABASE_URL", "embedded"),
];
/// What would leave the machine or cost something.
const ONLINE: [&str; 3] = ["AGENT_FALLBACK_MODEL", "TRANSCRIPTION_MODEL", "INSIGHT_MODEL"];
const TENANT_FILES: [&str; 4] = ["prompt.md", "catalog.json", "rules.json", "tools.json"];

/// A checked configuration.
pub(super) struct Prepared {
    pub(super) settings: Settings,
    pub(super) tenant: Tenant,
    pub(super) evaluation: EvalSettings,
}

/// Reads and checks everything; nothing has run before it returns (EVAL-2).
pub(super) fn prepare(mock: bool) -> anyhow::Result<Prepared> {
    let mut environment = config::process_environment()?;
    let Loaded { settings, tenant, warnings } = if mock {
        go_offline(&mut environment);
        load_offline(&environment)?
    } else {
        boot::load_from(&environment).map_err(|error| with_way_out(error, &environment))?
    };
    for warning in warnings.iter().filter(|warning| !mock || is_of_tenant(warning)) {
        eprintln!("warning: {warning}");
    }
    let evaluation = EvalSettings::from_vars(&environment.variables, &settings)?;
    Ok(Prepared { settings, tenant, evaluation })
}

/// Variables are the operator's, and an offline run uses hardly any; the files it does use.
fn is_of_tenant(warning: &Warning) -> bool {
    TENANT_FILES.iter().any(|name| warning.place.starts_with(name))
}

/// Whoever has no configuration at all wants to look first.
fn with_way_out(error: anyhow::Error, environment: &Environment) -> anyhow::Error {
    let named = environment.variables.get("CONFIG_DIR").map(|dir| dir.trim()).filter(|dir| !dir.is_empty());
    if holds_tenant(Path::new(named.unwrap_or("config"))) {
        return error;
    }
    anyhow::anyhow!("{error:#}\nwithout a configuration: `agent eval --mock` runs the demo tenant offline")
}

/// A judge of a provider would be asked; a mock judge stays.
fn go_offline(environment: &mut Environment) {
    let variables = &mut environment.variables;
    for (name, value) in PLACEHOLDERS {
        if variables.get(name).is_none_or(|given| given.trim().is_empty()) {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    for name in ONLINE {
        variables.remove(name);
    }
    let asked = variables.get("EVAL_JUDGE_MODEL").map(|judge| judge.trim()).filter(|judge| !judge.is_empty());
    if asked.is_some_and(|judge| !judge.starts_with("mock:")) {
        eprintln!(
            "warning: EVAL_JUDGE_MODEL is left out: --mock asks no provider, and only mock:judge is offline"
        );
        variables.remove("EVAL_JUDGE_MODEL");
    }
    let named = variables.get("AGENT_MODEL").is_some_and(|model| model.starts_with("mock:"));
    if !named {
        variables.insert("AGENT_MODEL".to_owned(), "mock:demo".to_owned());
    }
}

/// The files of `CONFIG_DIR`; where the default directory holds none of them, the demo tenant with all four.
fn load_offline(environment: &Environment) -> anyhow::Result<Loaded> {
    let (settings, warnings) = boot::settings_from(environment)?;
    let named = environment.variables.get("CONFIG_DIR").is_some_and(|dir| !dir.trim().is_empty());
    if named || holds_tenant(&settings.config_dir) {
        return boot::load_from(environment);
    }
    eprintln!("{} holds no tenant files: this is the demo tenant", settings.config_dir.display());
    Ok(Loaded { settings, tenant: demo::tenant()?, warnings })
}

fn holds_tenant(dir: &Path) -> bool {
    TENANT_FILES.iter().any(|name| dir.join(name).exists())
}
