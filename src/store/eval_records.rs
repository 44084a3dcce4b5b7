//! `eval_records`: what a suite came to with a real model, for the gate that activates a playbook (07/REC-1).

use serde_json::Value;
use tokio_postgres::Client;

use super::StoreError;
use crate::domain::TenantId;

const INSERT: &str = "insert into eval_records (tenant_id, playbook_hash, suite_hash, model, outcomes) \
                      values ($1, $2, $3, $4, $5)";

/// One run of a whole suite.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalRecord {
    /// Hash of the playbook in the prompt; empty when there is none.
    pub playbook_hash: String,
    /// Hex SHA-256 of the suite's file (07/REC-2).
    pub suite_hash: String,
    /// Model string.
    pub model: String,
    /// Case id → `passed`, `failed` or `reviewed` (JUDGE-35).
    pub outcomes: Value,
}

/// Writes one row.
///
/// # Errors
/// [`StoreError::NoTables`] on a database that no process has migrated; otherwise what the server answers.
pub async fn insert(client: &Client, tenant: &TenantId, record: &EvalRecord) -> Result<(), StoreError> {
    let EvalRecord { playbook_hash, suite_hash, model, outcomes } = record;
    let written =
        client.execute(INSERT, &[&tenant.as_str(), playbook_hash, suite_hash, model, outcomes]).await;
    written.map(|_| ()).map_err(StoreError::of_command)
}
