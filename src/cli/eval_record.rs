//! The record of a run with a real model, for the gate that activates a playbook (07/REC-1 to 07/REC-3).

use std::collections::BTreeMap;

use serde_json::json;

use super::{boot, database, local_http};
use crate::config::{DatabaseUrl, Settings};
use crate::domain::Provider;
use crate::evals::{CaseOutcome, Suite, Totals};
use crate::store::{embedded, eval_records};

/// Writes one row and says so. A run of the mock writes none; one of chosen cases neither, because it says nothing about
/// the others; nor one in which a turn had no model, because a gate must not open on its handoffs. Whatever goes wrong is
/// one line and changes no exit code (07/REC-3).
pub(super) fn write(settings: &Settings, suite: &Suite, outcomes: &[CaseOutcome], totals: &Totals) {
    if settings.model.agent.provider == Provider::Mock {
        return;
    }
    if !suite.whole {
        eprintln!("not recorded: only some cases of the suite ran");
        return;
    }
    if let Some(said) = totals.without_model() {
        eprintln!("not recorded: {said}");
        return;
    }
    if !has_database(&settings.database) {
        eprintln!("not recorded: there is no database yet, and none is made for a record");
        return;
    }
    match insert(settings, suite, outcomes) {
        Ok(()) => eprintln!("recorded"),
        Err(error) => eprintln!("not recorded: {error:#}"),
    }
}

/// A database of our own is not made only to be written to once.
fn has_database(database: &DatabaseUrl) -> bool {
    match database {
        DatabaseUrl::Postgres(_) => true,
        DatabaseUrl::EmbeddedTemporary => false,
        DatabaseUrl::Embedded(directory) => embedded::exists_in(directory),
    }
}

fn insert(settings: &Settings, suite: &Suite, outcomes: &[CaseOutcome]) -> anyhow::Result<()> {
    let statuses: BTreeMap<&str, &str> =
        outcomes.iter().map(|outcome| (outcome.case.id.as_str(), outcome.status().recorded())).collect();
    let record = eval_records::EvalRecord {
        playbook_hash: String::new(),
        suite_hash: suite.hash.clone(),
        model: settings.model.agent.as_string(),
        outcomes: json!(statuses),
    };
    let opened = boot::share_database(settings)?;
    local_http::block_on(async {
        let client = database::connect(&opened).await?;
        Ok(eval_records::insert(&client, &settings.tenant, &record).await?)
    })
}
