//! The tables and columns that our statements name, and how they are looked up (COMP-11).

use std::collections::HashSet;

use tokio_postgres::Client;

use super::MigrationError;

/// Every table of the database with the columns that our statements name (COMP-11). A test compares it with what the
/// migrations make, so neither can change alone.
pub(super) const EXPECTED: &[(&str, &str)] = &[
    (
        "conversations",
        "id tenant_id subscriber_id channel turn_count escalated_at last_message_at token_hash previous_token_hash \
         token_issued_at token_generation rs_unwritten_token rs_reissued_at offering opening_sent_at created_at updated_at",
    ),
    (
        "turns",
        "id seq conversation_id role text outcome model bound media_kind actions reads input_tokens output_tokens \
         cache_read_tokens cost_usd latency_ms playbook_version created_at",
    ),
    (
        "outbox",
        "id tenant_id subscriber_id conversation_id kind payload status attempts next_attempt_at last_error \
         created_at delivered_at rs_process_id rs_lease_until rs_texts_sent rs_window_from rs_discarded_at rs_seq",
    ),
    ("nudges", "id conversation_id due_at status cancel_reason scheduled_at created_at updated_at"),
    ("budget_counters", "tenant_id day tokens cost_usd"),
    ("rate_counters", "tenant_id subscriber_id window_start count"),
    (
        "learning_runs",
        "id tenant_id week forced status converted_count not_converted_count cost_usd started_at finished_at",
    ),
    (
        "insight_proposals",
        "id tenant_id run_id text rationale converted_count not_converted_count turn_ids status reviewed_at created_at",
    ),
    ("playbook_versions", "id tenant_id content_hash insights active activated_at created_at"),
    ("eval_records", "id tenant_id playbook_hash suite_hash model outcomes created_at"),
    ("_migrations", "name applied_at"),
    ("rs_processes", "id tenant_id started_at beat_at"),
    ("rs_lanes", "conversation_id process_id turn_id fence expires_at next_text_at"),
    (
        "rs_owed",
        "turn_id conversation_id tenant_id process_id fence status binding second_run user_turn_ids payload actions \
         charged tokens cost_usd queued rest not_before received_at created_at said_at place",
    ),
    (
        "rs_inbox",
        "id conversation_id process_id message_id text media_kind token_digest offering binding received_at \
         created_at",
    ),
    ("rs_attempts", "turn_id action conversation_id process_id started_at finished_at outcome entry error"),
    ("rs_actions", "turn_id conversation_id tenant_id process_id actions created_at"),
    ("rs_summaries", "conversation_id upto_seq config known updated_at"),
    (
        "rs_handoffs",
        "id conversation_id turn_id reason opened_at opened_seq closed_at closed_by tag tag_state untag_state \
         tag_process_id tag_at tag_error untag_attempts untag_due_at",
    ),
    ("rs_rate", "tenant_id tat"),
    (
        "rs_turn_checks",
        "turn_id conversation_id cause interventions confidence ungrounded escalation_reason created_at",
    ),
];

/// Tables of common names, each with columns that every version of it had from its first statement on. One that has none
/// of them is another application's.
const OURS_BY: &[(&str, &[&str])] = &[
    ("conversations", &["tenant_id", "subscriber_id"]),
    ("outbox", &["tenant_id", "subscriber_id", "payload"]),
    ("turns", &["conversation_id"]),
];

/// Refuses a search path that leads nowhere (DB-4).
pub(super) async fn refuse_none(client: &Client) -> Result<(), MigrationError> {
    let sql = "select current_schema() is null";
    let row = client.query_one(sql, &[]).await.map_err(MigrationError::connection)?;
    let missing: bool = row.try_get(0).map_err(MigrationError::connection)?;
    if missing { Err(MigrationError::NoSchema) } else { Ok(()) }
}

/// Refuses a schema in which another application's tables have our names, before anything is written.
pub(super) async fn refuse_foreign(client: &Client) -> Result<(), MigrationError> {
    let tables = foreign_in(&present(client).await?);
    if tables.is_empty() { Ok(()) } else { Err(MigrationError::Foreign { tables }) }
}

fn foreign_in(present: &HashSet<(String, String)>) -> Vec<String> {
    let is_foreign = |(table, ours): &&(&str, &[&str])| {
        let mut columns = present.iter().filter(|(name, _)| name == table).peekable();
        columns.peek().is_some() && !columns.any(|(_, column)| ours.contains(&column.as_str()))
    };
    OURS_BY.iter().filter(is_foreign).map(|(table, _)| (*table).to_owned()).collect()
}

/// Names what is missing, a whole table by its name alone.
pub(super) async fn check(client: &Client) -> Result<(), MigrationError> {
    let missing = missing_from(&present(client).await?);
    if missing.is_empty() { Ok(()) } else { Err(MigrationError::SchemaIncomplete { missing }) }
}

/// Every column of the schema's tables, with its table.
async fn present(client: &Client) -> Result<HashSet<(String, String)>, MigrationError> {
    let rows = client
        .query(
            "select class.relname::text, attribute.attname::text
             from pg_class as class
             join pg_attribute as attribute on attribute.attrelid = class.oid
             where class.relnamespace = (select oid from pg_namespace where nspname = current_schema())
               and class.relkind in ('r', 'p', 'v') and attribute.attnum > 0 and not attribute.attisdropped",
            &[],
        )
        .await
        .map_err(MigrationError::connection)?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<HashSet<(String, String)>, tokio_postgres::Error>>()
        .map_err(MigrationError::connection)
}

fn missing_from(present: &HashSet<(String, String)>) -> Vec<String> {
    let mut missing = Vec::new();
    for (table, columns) in EXPECTED {
        if !present.iter().any(|(name, _)| name == table) {
            missing.push((*table).to_owned());
            continue;
        }
        let absent = |column: &&str| !present.contains(&((*table).to_owned(), (*column).to_owned()));
        missing.extend(columns.split_whitespace().filter(absent).map(|column| format!("{table}.{column}")));
    }
    missing.sort();
    missing
}
