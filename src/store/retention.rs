//! Deleting what is old (DEC-13, RET-1): in small batches, one run at a time, and never a delivery that is still to
//! be made or work that is open.

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Client;

use super::StoreError;
use crate::domain::TenantId;

/// Rows of one batch: short enough that nobody waits behind it.
const BATCH: i64 = 500;

/// Hours after which a rate window is of no use (RET-1).
const RATE_WINDOW_HOURS: i64 = 48;

/// One run at a time on this database. A transaction's lock, because a pooler may give every transaction another
/// session (DEC-29).
const LOCK: &str = "select pg_try_advisory_xact_lock(7312026, 13) as free";

/// What a contact still has to come: a reply, a message, a follow-up, a turn that runs. `c` is the conversation.
macro_rules! open_work {
    () => {
        "exists (select 1 from rs_owed w where w.conversation_id = c.id)
         or exists (select 1 from rs_inbox w where w.conversation_id = c.id)
         or exists (select 1 from nudges w where w.conversation_id = c.id and w.status in ('pending', 'running'))
         or exists (select 1 from rs_lanes w where w.conversation_id = c.id and w.turn_id is not null
                    and w.expires_at > now())
         or exists (select 1 from outbox w where w.tenant_id = c.tenant_id and w.subscriber_id = c.subscriber_id
                    and w.status in ('pending', 'delivering'))"
    };
}

/// A table and which of its rows are old: `$1` tenant, `$2` the moment before which they are.
struct Old {
    table: &'static str,
    /// Selects the rows' `ctid`.
    rows: &'static str,
}

/// In this order: a conversation goes when nothing of it is left that is not old.
const OLD: &[Old] = &[
    Old {
        table: "outbox",
        rows: "select x.ctid from outbox x
               where x.tenant_id = $1 and x.status in ('delivered', 'failed') and x.created_at < $2",
    },
    Old {
        table: "nudges",
        rows: "select x.ctid from nudges x join conversations c on c.id = x.conversation_id
               where c.tenant_id = $1 and x.status in ('sent', 'skipped', 'cancelled') and x.updated_at < $2",
    },
    Old {
        table: "rs_handoffs",
        rows: "select x.ctid from rs_handoffs x join conversations c on c.id = x.conversation_id
               where c.tenant_id = $1 and x.closed_at < $2",
    },
    Old {
        table: "rs_attempts",
        rows: "select x.ctid from rs_attempts x join conversations c on c.id = x.conversation_id
               where c.tenant_id = $1 and x.finished_at < $2
                 and not exists (select 1 from rs_owed o where o.turn_id = x.turn_id)",
    },
    Old {
        table: "turns",
        rows: concat!(
            "select x.ctid from turns x join conversations c on c.id = x.conversation_id
             where c.tenant_id = $1 and x.created_at < $2 and not (",
            open_work!(),
            ")"
        ),
    },
    Old {
        table: "conversations",
        rows: concat!(
            "select c.ctid from conversations c
             where c.tenant_id = $1 and c.last_message_at < $2 and c.updated_at < $2
               and not exists (select 1 from turns t where t.conversation_id = c.id)
               and not exists (select 1 from rs_handoffs h where h.conversation_id = c.id and h.opened_at >= $2)
               and not exists (select 1 from outbox o where o.conversation_id = c.id and o.created_at >= $2)
               and not (",
            open_work!(),
            ")"
        ),
    },
];

/// Rate windows have an age of their own.
const OLD_WINDOWS: Old = Old {
    table: "rate_counters",
    rows: "select x.ctid from rate_counters x where x.tenant_id = $1 and x.window_start < $2",
};

/// What a run deleted, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The table.
    pub table: &'static str,
    /// Its old rows.
    pub rows: u64,
}

/// Deletes rows of the tenant that are older than `days` days before `now`, rate windows after two days. With `dry_run`
/// counts them only; the count of conversations then leaves out those whose turns would go first.
///
/// # Errors
/// [`StoreError::Busy`] while another run is under way; [`StoreError::NoTables`] or [`StoreError::OldTables`] on a
/// database that this version has not migrated. What was deleted before a failure stays deleted: run it again.
pub async fn run(
    client: &mut Client,
    tenant: &TenantId,
    days: u32,
    now: Timestamp,
    dry_run: bool,
) -> Result<Vec<Deleted>, StoreError> {
    let before = back(now, i64::from(days).saturating_mul(24));
    let windows_before = back(now, RATE_WINDOW_HOURS);
    let mut report = Vec::new();
    for old in OLD.iter().chain([&OLD_WINDOWS]) {
        let limit = if old.table == OLD_WINDOWS.table { windows_before } else { before };
        let rows = match dry_run {
            true => count(client, old, tenant, limit).await?,
            false => delete(client, old, tenant, limit).await?,
        };
        report.push(Deleted { table: old.table, rows });
    }
    Ok(report)
}

fn back(now: Timestamp, hours: i64) -> Timestamp {
    now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::UNIX_EPOCH)
}

async fn count(client: &Client, old: &Old, tenant: &TenantId, before: Timestamp) -> Result<u64, StoreError> {
    let sql = format!("select count(*) as rows from ({}) old", old.rows);
    let counted = client.query_one(&sql, &[&tenant.as_str(), &before]).await;
    let rows: i64 = counted.map_err(StoreError::of_command)?.try_get("rows")?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

async fn delete(
    client: &mut Client,
    old: &Old,
    tenant: &TenantId,
    before: Timestamp,
) -> Result<u64, StoreError> {
    // Rows that somebody works on are skipped and go with a later run.
    let of = if old.table == "conversations" { "c" } else { "x" };
    let sql = format!(
        "delete from {} where ctid = any (array({} limit $3 for update of {of} skip locked))",
        old.table, old.rows
    );
    let mut total = 0;
    loop {
        let transaction = client.transaction().await?;
        let free: bool = transaction.query_one(LOCK, &[]).await?.try_get("free")?;
        if !free {
            return Err(StoreError::Busy);
        }
        let deleted = transaction.execute(&sql, &[&tenant.as_str(), &before, &BATCH]).await;
        let rows = deleted.map_err(StoreError::of_command)?;
        transaction.commit().await?;
        total += rows;
        if rows == 0 {
            return Ok(total);
        }
    }
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
