//! Deleting what is old (DEC-13, RET-1): searched without a lock, deleted in short batches, one run at a time for each
//! tenant, and never a delivery that is still to be made or work that is open.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use super::StoreError;
use super::handoff_tags::removal_to_come;
use crate::domain::TenantId;

/// Rows of the first batch of a table, and the most of one.
const BATCHES: (usize, usize) = (50, 500);

/// What a batch may take: whoever writes for one of its contacts waits behind it. One that takes longer is given up and
/// tried in smaller parts.
const BATCH_TIME: Duration = Duration::from_millis(900);

/// A batch that took this long is followed by a smaller one, and one that took a quarter of it by a larger one.
const SLOW_BATCH: Duration = Duration::from_millis(400);

/// Rows that one search finds. A search locks nothing, so it may take as long as a large table needs.
const FOUND: i64 = 5000;

/// Hours after which a rate window is of no use (RET-1).
const RATE_WINDOW_HOURS: i64 = 48;

/// Days after which a finished delivery or follow-up goes, however long the rest is kept (RET-1).
const FINISHED_DAYS: u32 = 30;

/// One run at a time for each tenant. A transaction's lock, because a pooler may give every transaction another session
/// (DEC-29); it is held on a connection of its own from the first batch to the last.
const LOCK: &str = "select pg_try_advisory_xact_lock(7312026, hashtext($1)) as free";

/// Proves that the lock is still held, and keeps its transaction from being idle for too long.
const STILL_HELD: &str = "select 1";

/// What a contact still has to come: a reply, a message, a follow-up, a turn that runs, a person, or the end of the call
/// for one (the tag in ManyChat, of which nobody else would know). `c` is the conversation.
macro_rules! open_work {
    () => {
        concat!(
            "exists (select 1 from rs_handoffs w where w.conversation_id = c.id
                     and (w.closed_at is null or w.tag_state = 'attempting' or ",
            removal_to_come!("w"),
            "))
         or exists (select 1 from rs_owed w where w.conversation_id = c.id)
         or exists (select 1 from rs_inbox w where w.conversation_id = c.id)
         or exists (select 1 from rs_actions w where w.conversation_id = c.id)
         or exists (select 1 from nudges w where w.conversation_id = c.id and w.status in ('pending', 'running'))
         or exists (select 1 from rs_lanes w where w.conversation_id = c.id and w.turn_id is not null
                    and w.expires_at > now())
         or exists (select 1 from outbox w where w.tenant_id = c.tenant_id and w.subscriber_id = c.subscriber_id
                    and w.status in ('pending', 'delivering'))"
        )
    };
}

/// How long a table's rows are kept.
#[derive(Clone, Copy)]
enum Kept {
    /// `rules.retentionDays`.
    ByRule,
    /// The same, but 30 days at most.
    Finished,
    /// Two days.
    RateWindow,
}

/// A table and which of its rows are old: `$1` tenant, `$2` the moment before which they are.
struct Old {
    table: &'static str,
    kept: Kept,
    /// Selects the rows' `ctid`; conditions can be added at its end.
    rows: &'static str,
}

/// In this order: a conversation goes when nothing of it is left that is not old.
const OLD: &[Old] = &[
    Old {
        table: "outbox",
        kept: Kept::Finished,
        rows: "select x.ctid from outbox x
               where x.tenant_id = $1 and x.status in ('delivered', 'failed') and x.created_at < $2",
    },
    Old {
        table: "nudges",
        kept: Kept::Finished,
        rows: "select x.ctid from nudges x join conversations c on c.id = x.conversation_id
               where c.tenant_id = $1 and x.status in ('sent', 'skipped', 'cancelled') and x.updated_at < $2",
    },
    Old {
        table: "rs_handoffs",
        kept: Kept::ByRule,
        rows: concat!(
            "select x.ctid from rs_handoffs x join conversations c on c.id = x.conversation_id
             where c.tenant_id = $1 and x.closed_at < $2 and x.tag_state is distinct from 'attempting' and not ",
            "coalesce(",
            removal_to_come!("x"),
            ", false)"
        ),
    },
    Old {
        table: "rs_attempts",
        kept: Kept::ByRule,
        rows: "select x.ctid from rs_attempts x join conversations c on c.id = x.conversation_id
               where c.tenant_id = $1 and x.finished_at < $2
                 and not exists (select 1 from rs_owed o where o.turn_id = x.turn_id)
                 and not exists (select 1 from rs_actions a where a.turn_id = x.turn_id)",
    },
    Old {
        table: "turns",
        kept: Kept::ByRule,
        rows: concat!(
            "select x.ctid from turns x join conversations c on c.id = x.conversation_id
             where c.tenant_id = $1 and x.created_at < $2 and not (",
            open_work!(),
            ")"
        ),
    },
    Old {
        table: "conversations",
        kept: Kept::ByRule,
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
    Old {
        table: "rate_counters",
        kept: Kept::RateWindow,
        rows: "select x.ctid from rate_counters x where x.tenant_id = $1 and x.window_start < $2",
    },
];

/// What a run deleted, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The table.
    pub table: &'static str,
    /// Its old rows.
    pub rows: u64,
}

/// Deletes rows of the tenant that are older than `days` days before `now`, finished deliveries and follow-ups after 30 days
/// at most, rate windows after two days. `keeper` is another connection, which keeps a second run out. With `dry_run`
/// counts the rows only; the count of conversations then leaves out those whose turns would go first.
///
/// # Errors
/// [`StoreError::Busy`] while another run is under way; [`StoreError::NoTables`] or [`StoreError::OldTables`] on a
/// database that this version has not migrated. What was deleted before a failure stays deleted: run it again.
pub async fn run(
    client: &mut Client,
    keeper: &mut Client,
    tenant: &TenantId,
    days: u32,
    now: Timestamp,
    dry_run: bool,
) -> Result<Vec<Deleted>, StoreError> {
    let lock = keeper.transaction().await?;
    if !dry_run {
        let free: bool = lock.query_one(LOCK, &[&tenant.as_str()]).await?.try_get("free")?;
        if !free {
            return Err(StoreError::Busy);
        }
    }
    let mut report = Vec::new();
    for old in OLD {
        let limit = before(now, days, old.kept);
        let rows = match dry_run {
            true => count(client, old, tenant, limit).await?,
            false => delete(client, &lock, old, tenant, limit).await?,
        };
        report.push(Deleted { table: old.table, rows });
    }
    lock.rollback().await?;
    Ok(report)
}

fn before(now: Timestamp, days: u32, kept: Kept) -> Timestamp {
    let of_days = |days: u32| back(now, i64::from(days).saturating_mul(24));
    match kept {
        Kept::ByRule => of_days(days),
        Kept::Finished => of_days(days.min(FINISHED_DAYS)),
        Kept::RateWindow => back(now, RATE_WINDOW_HOURS),
    }
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
    lock: &Transaction<'_>,
    old: &Old,
    tenant: &TenantId,
    before: Timestamp,
) -> Result<u64, StoreError> {
    let (mut total, mut size) = (0, BATCHES.0);
    loop {
        lock.execute(STILL_HELD, &[]).await?;
        let found = find(client, old, tenant, before).await?;
        let mut rest = found.as_slice();
        let mut deleted = 0;
        while !rest.is_empty() {
            lock.execute(STILL_HELD, &[]).await?;
            let (batch, others) = rest.split_at(size.min(rest.len()));
            let begun = Instant::now();
            // A single row is deleted however long it takes.
            let limit = if batch.len() > 1 { BATCH_TIME } else { Duration::ZERO };
            let rows = delete_batch(client, old, (tenant, before), batch, limit).await?;
            let next = next_size(batch.len(), rows.is_some(), begun.elapsed());
            // What is left over at the end says nothing about a larger batch, unless it was slow.
            size = if batch.len() < size && next >= batch.len() { size } else { next };
            if let Some(rows) = rows {
                (rest, deleted) = (others, deleted + rows);
            }
        }
        total += deleted;
        if deleted == 0 {
            return Ok(total);
        }
    }
}

/// Rows of the next batch after one of `size` rows.
fn next_size(size: usize, ended: bool, took: Duration) -> usize {
    let next = match took {
        _ if !ended => size / 4,
        took if took > SLOW_BATCH => size / 2,
        took if took < SLOW_BATCH / 4 => size * 2,
        _ => size,
    };
    next.clamp(1, BATCHES.1)
}

/// Where some of the old rows are.
async fn find(
    client: &Client,
    old: &Old,
    tenant: &TenantId,
    before: Timestamp,
) -> Result<Vec<String>, StoreError> {
    let sql = format!("select old.ctid::text as place from ({} limit $3) old", old.rows);
    let rows = client.query(&sql, &[&tenant.as_str(), &before, &FOUND]).await;
    let rows = rows.map_err(StoreError::of_command)?;
    rows.iter().map(|row| Ok(row.try_get("place")?)).collect()
}

/// Deletes those of the rows at these places that are still old, in one transaction; `None` when that took longer than
/// `limit` (zero: none) and was given up. Rows that somebody works on are skipped and go with a later run.
async fn delete_batch(
    client: &mut Client,
    old: &Old,
    (tenant, before): (&TenantId, Timestamp),
    places: &[String],
    limit: Duration,
) -> Result<Option<u64>, StoreError> {
    let of = if old.table == "conversations" { "c" } else { "x" };
    let sql = format!(
        "delete from {} where ctid = any (array({} and {of}.ctid = any ($3::text[]::tid[]) for update of {of} skip locked))",
        old.table, old.rows
    );
    // Before they are judged, in a statement of its own: a turn that began meanwhile has locked the contact, or is seen.
    let locking =
        format!("select 1 from {} where ctid = any ($1::text[]::tid[]) for update skip locked", old.table);
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("set local statement_timeout = {}", limit.as_millis())).await?;
    let deleted = match transaction.execute(&locking, &[&places]).await {
        Ok(_) => transaction.execute(&sql, &[&tenant.as_str(), &before, &places]).await,
        Err(error) => Err(error),
    };
    match deleted {
        Ok(rows) => {
            transaction.commit().await?;
            Ok(Some(rows))
        }
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) && !limit.is_zero() => {
            transaction.rollback().await?;
            Ok(None)
        }
        Err(error) => Err(StoreError::of_command(error)),
    }
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
