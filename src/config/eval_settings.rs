//! The variables only `agent eval` reads (05 section 2.2, 07). They never stop a boot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::environment::MOST;
use super::variables::Variables;
use super::{ModelName, Settings, SettingsError};

/// Variables of an evaluation run, checked strictly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalSettings {
    /// `EVAL_DIR`; the built-in golden suite when unset. Blank is refused (ENV-2, ENV-3): a pipeline whose variable got
    /// lost would be green for the wrong suite.
    pub dir: Option<PathBuf>,
    /// `EVAL_MAX_LATENCY_MS`; the race deadline when unset. Equal is allowed (ASSERT-7).
    pub max_latency: Duration,
    /// `EVAL_MAX_P95_MS` (GAP-EV-10).
    pub max_p95: Option<Duration>,
    /// `EVAL_JUDGE_MODEL` (JUDGE-1).
    pub judge: Option<ModelName>,
    /// `PLAYBOOK_VERSION` (07/REC-4).
    pub playbook_version: Option<String>,
}

impl EvalSettings {
    /// Reads them beside settings that were already checked.
    ///
    /// # Errors
    /// Every faulty variable with its reason (ASSERT-9: an empty or wrong latency is refused).
    pub fn from_vars(vars: &BTreeMap<String, String>, settings: &Settings) -> Result<Self, SettingsError> {
        let mut reader = Variables::new(vars);
        let evaluation = read(&mut reader, settings);
        match evaluation {
            Some(evaluation) if reader.faults.is_empty() => Ok(evaluation),
            _ => Err(SettingsError::new(reader.faults)),
        }
    }
}

fn read(vars: &mut Variables<'_>, settings: &Settings) -> Option<EvalSettings> {
    let milliseconds = |value: u32| Duration::from_millis(u64::from(value));
    let max_latency = match vars.raw("EVAL_MAX_LATENCY_MS") {
        Some(_) => vars.whole("EVAL_MAX_LATENCY_MS", 1..=MOST, MOST).map(milliseconds),
        None => Some(settings.race_deadline),
    };
    let max_p95 = vars.whole_if_filled("EVAL_MAX_P95_MS", 1..=MOST);
    let judge = vars.optional_model("EVAL_JUDGE_MODEL");
    let dir = dir(vars);
    Some(EvalSettings {
        dir: dir?,
        max_latency: max_latency?,
        max_p95: max_p95?.map(milliseconds),
        judge: judge?,
        playbook_version: vars.filled("PLAYBOOK_VERSION").map(str::to_owned),
    })
}

fn dir(vars: &mut Variables<'_>) -> Option<Option<PathBuf>> {
    const NAME: &str = "EVAL_DIR";
    match (vars.raw(NAME), vars.filled(NAME)) {
        (Some(_), None) => {
            vars.refuse(NAME, "is blank; name a suite, or unset it for the built-in golden suite")
        }
        (_, dir) => Some(dir.map(PathBuf::from)),
    }
}

/// For everything but `agent eval`, which reads it strictly: a faulty latency warns and stops nothing (ASSERT-9).
pub(super) fn hint_at_latency(vars: &mut Variables<'_>) {
    let before = vars.faults.len();
    let found = vars.whole_if_filled("EVAL_MAX_LATENCY_MS", 1..=MOST);
    vars.faults.truncate(before);
    if found.is_none() {
        vars.warn("EVAL_MAX_LATENCY_MS", "is no whole number above 0; `agent eval` will refuse it");
    }
}
