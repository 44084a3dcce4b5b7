//! All data of one contact: export and erasure over every table (DEC-13). The list below says of each table of the
//! schema whose data it holds; a test compares it with the database, so that no table is forgotten.

use serde_json::{Map, Value};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, IsolationLevel, Transaction};
use uuid::Uuid;

use super::StoreError;
use crate::domain::{SubscriberId, TenantId};

/// How a table's rows belong to a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belongs {
    /// By its `conversation_id`.
    ToConversation,
    /// By `tenant_id` and `subscriber_id`.
    ToSubscriber,
    /// By either: old rows of the reference have no conversation.
    ToEither,
    /// The contact's own row; the last to go.
    IsContact,
}

/// Every table that holds a contact's data, in the order of erasure.
const PERSONAL: &[(&str, Belongs)] = &[
    ("rs_attempts", Belongs::ToConversation),
    ("rs_actions", Belongs::ToConversation),
    ("rs_summaries", Belongs::ToConversation),
    ("rs_inbox", Belongs::ToConversation),
    ("rs_owed", Belongs::ToConversation),
    ("rs_handoffs", Belongs::ToConversation),
    ("rs_lanes", Belongs::ToConversation),
    ("nudges", Belongs::ToConversation),
    ("outbox", Belongs::ToEither),
    ("rs_turn_checks", Belongs::ToConversation),
    ("turns", Belongs::ToConversation),
    ("rate_counters", Belongs::ToSubscriber),
    ("conversations", Belongs::IsContact),
];

/// Tables that hold nothing of a single contact: sums of the tenant, learning over many contacts, processes.
#[cfg(test)]
const IMPERSONAL: &[&str] = &[
    "_migrations",
    "budget_counters",
    "eval_records",
    "insight_proposals",
    "learning_runs",
    "playbook_versions",
    "rs_processes",
    "rs_rate",
];

/// Columns whose name sounds like a credential and that hold none: counts and times.
#[cfg(test)]
const NO_DIGESTS: &[&str] =
    &["cache_read_tokens", "input_tokens", "output_tokens", "token_generation", "token_issued_at", "tokens"];

/// Digests of a credential are nobody's data and of use to a thief only: they stay out of an export.
const DIGESTS: [&str; 4] = ["token_hash", "previous_token_hash", "rs_unwritten_token", "token_digest"];

const FIND: &str = "select id from conversations where tenant_id = $1 and subscriber_id = $2";

/// Keeps turns out until the erasure is over: they lock the contact's row first as well. What delivers and confirms locks
/// its own rows before, and can meet an erasure half-way ([`erase`]).
const FIND_AND_LOCK: &str =
    "select id from conversations where tenant_id = $1 and subscriber_id = $2 for update";

/// How often an erasure is begun that others stand in the way of. Postgres gives one of the two up after a second.
const ERASE_TRIES: u32 = 5;

/// Tags of ours that ManyChat may still show at the contact.
const TAGS_LEFT: &str = "
    select distinct h.tag from rs_handoffs h join conversations c on c.id = h.conversation_id
    where c.tenant_id = $1 and c.subscriber_id = $2 and h.tag_state in ('attempting', 'added', 'unknown')
      and not exists (select 1 from rs_handoffs r
                      where r.conversation_id = h.conversation_id and r.tag = h.tag and r.untag_state = 'removed'
                        and (r.opened_at, r.id) >= (h.opened_at, h.id))
    order by h.tag";

/// The contact, under a name that every condition uses.
const WHO: &str = "with who as (select $1::text as tenant, $2::text as subscriber, $3::uuid as conversation)";

impl Belongs {
    /// The condition on a table called `x`.
    const fn condition(self) -> &'static str {
        match self {
            Self::ToConversation => "x.conversation_id = who.conversation",
            Self::ToSubscriber => "x.tenant_id = who.tenant and x.subscriber_id = who.subscriber",
            Self::ToEither => {
                "(x.tenant_id = who.tenant and x.subscriber_id = who.subscriber or x.conversation_id = who.conversation)"
            }
            Self::IsContact => "x.id = who.conversation",
        }
    }
}

/// One table's part of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erased {
    /// The table.
    pub table: &'static str,
    /// Rows of the contact in it.
    pub rows: u64,
}

/// Everything that is stored about the contact, by table; `None` when that is nothing.
///
/// # Errors
/// [`StoreError::NoTables`] on a database that no process has migrated; otherwise what the server answers.
pub async fn export(
    client: &mut Client,
    tenant: &TenantId,
    subscriber: &SubscriberId,
) -> Result<Option<Value>, StoreError> {
    // One snapshot of all tables.
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let snapshot = snapshot.start().await?;
    let conversation = find(&snapshot, FIND, tenant, subscriber).await?;
    let mut tables = Map::new();
    for (table, belongs) in PERSONAL {
        // Whole rows on purpose, columns of other versions included (over COMP-7): an export leaves nothing out.
        let sql = format!(
            "{WHO} select coalesce(jsonb_agg(to_jsonb(x) - $4::text[]), '[]'::jsonb) as rows from {table} x, who where {}",
            belongs.condition()
        );
        let values: &[&(dyn ToSql + Sync)] =
            &[&tenant.as_str(), &subscriber.expose(), &conversation, &DIGESTS.as_slice()];
        let row = snapshot.query_one(&sql, values).await.map_err(StoreError::of_command)?;
        tables.insert((*table).to_owned(), row.try_get("rows")?);
    }
    snapshot.commit().await?;
    let found = tables.values().any(|rows| rows.as_array().is_some_and(|rows| !rows.is_empty()));
    Ok(found.then_some(Value::Object(tables)))
}

/// Counts the contact's rows and changes nothing.
///
/// # Errors
/// As [`export`].
pub async fn count(
    client: &mut Client,
    tenant: &TenantId,
    subscriber: &SubscriberId,
) -> Result<Vec<Erased>, StoreError> {
    let transaction = client.transaction().await?;
    let conversation = find(&transaction, FIND, tenant, subscriber).await?;
    let mut counts = Vec::new();
    for (table, belongs) in PERSONAL {
        let sql = format!("{WHO} select count(*) as rows from {table} x, who where {}", belongs.condition());
        let values: &[&(dyn ToSql + Sync)] = &[&tenant.as_str(), &subscriber.expose(), &conversation];
        let row = transaction.query_one(&sql, values).await.map_err(StoreError::of_command)?;
        let rows: i64 = row.try_get("rows")?;
        counts.push(Erased { table, rows: u64::try_from(rows).unwrap_or(0) });
    }
    transaction.commit().await?;
    Ok(counts)
}

/// Names of the tags that a handoff may have left at the contact in ManyChat. After an erasure nobody knows of them.
///
/// # Errors
/// As [`export`].
pub async fn tags_left(
    client: &Client,
    tenant: &TenantId,
    subscriber: &SubscriberId,
) -> Result<Vec<String>, StoreError> {
    let rows = client.query(TAGS_LEFT, &[&tenant.as_str(), &subscriber.expose()]).await;
    let tags = rows.map_err(StoreError::of_command)?;
    Ok(tags.iter().map(|row| row.try_get("tag")).collect::<Result<_, _>>()?)
}

/// Erases the contact, in one transaction. A turn that is under way ends without a reply, and a reply that is being
/// delivered is not tried again. Whoever delivers or confirms a reply of the contact just now can stand in the way for a
/// moment; then it is tried again.
///
/// # Errors
/// As [`export`]; then nothing was erased, unless the connection was lost at the very end: count again.
pub async fn erase(
    client: &mut Client,
    tenant: &TenantId,
    subscriber: &SubscriberId,
) -> Result<Vec<Erased>, StoreError> {
    for _ in 1..ERASE_TRIES {
        match erase_once(client, tenant, subscriber).await {
            Err(error) if error.is_deadlock() => {}
            ended => return ended,
        }
    }
    erase_once(client, tenant, subscriber).await
}

async fn erase_once(
    client: &mut Client,
    tenant: &TenantId,
    subscriber: &SubscriberId,
) -> Result<Vec<Erased>, StoreError> {
    let transaction = client.transaction().await?;
    let conversation = find(&transaction, FIND_AND_LOCK, tenant, subscriber).await?;
    let mut erased = Vec::new();
    for (table, belongs) in PERSONAL {
        let sql = format!("{WHO} delete from {table} x using who where {}", belongs.condition());
        let values: &[&(dyn ToSql + Sync)] = &[&tenant.as_str(), &subscriber.expose(), &conversation];
        let rows = transaction.execute(&sql, values).await.map_err(StoreError::of_command)?;
        erased.push(Erased { table, rows });
    }
    transaction.commit().await?;
    Ok(erased)
}

async fn find(
    transaction: &Transaction<'_>,
    sql: &str,
    tenant: &TenantId,
    subscriber: &SubscriberId,
) -> Result<Option<Uuid>, StoreError> {
    let found = transaction.query_opt(sql, &[&tenant.as_str(), &subscriber.expose()]).await;
    let row = found.map_err(StoreError::of_command)?;
    Ok(row.map(|row| row.try_get("id")).transpose()?)
}

#[cfg(test)]
#[path = "personal_tests.rs"]
mod tests;
