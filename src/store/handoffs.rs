//! Handoffs as an operator sees them (DEC-25): which are open, since when and why, and closing them. Nothing here
//! names a contact; `conversations.escalated_at` is the latest handoff and is never cleared (ESCS-3).

use jiff::Timestamp;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::{Database, StoreError};
use crate::domain::{ConversationId, SubscriberId, TenantId};

const LIST: &str = "
    select h.id, h.conversation_id, h.reason, h.opened_at, h.closed_at, h.closed_by, h.tag, h.tag_state,
           h.untag_state, h.tag_error, extract(epoch from now() - h.opened_at)::float8 as age
    from rs_handoffs h join conversations c on c.id = h.conversation_id
    where c.tenant_id = $1 and ($2 or h.closed_at is null)
    order by h.opened_at, h.id limit $3";

const CLOSE: &str = "
    update rs_handoffs h set closed_at = now(), closed_by = 'operator'
    from conversations c
    where c.id = h.conversation_id and c.tenant_id = $1 and h.closed_at is null
      and ($2::uuid in (h.id, h.conversation_id) or c.subscriber_id = $3)
    returning h.id, h.conversation_id, h.tag, h.tag_state";

const KNOWN: &str = "
    select exists (select 1 from conversations c left join rs_handoffs h on h.conversation_id = c.id
                   where c.tenant_id = $1 and ($2::uuid in (h.id, c.id) or c.subscriber_id = $3)) as known";

const END_PAUSE: &str = "
    update rs_handoffs set closed_at = now(), closed_by = $2
    where conversation_id = $1 and closed_at is null and coalesce(opened_seq, 0) <= $3";

const WORKERS: &str = "
    select count(*) as alive from rs_processes
    where tenant_id = $1 and beat_at > statement_timestamp() - make_interval(secs => $2)";

/// One handoff.
#[derive(Clone, Debug)]
pub struct HandoffRow {
    /// Its id.
    pub id: Uuid,
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// Why a person was called.
    pub reason: String,
    /// When.
    pub opened_at: Timestamp,
    /// Seconds since then, by the database's clock.
    pub age_secs: f64,
    /// When it was closed; `None` while it is open.
    pub closed_at: Option<Timestamp>,
    /// Who closed it: `operator`, `pause_over` or `tag_gone`.
    pub closed_by: Option<String>,
    /// The tag that was attempted, and what became of it.
    pub tag: TagNote,
}

/// What is known of a handoff's tag.
#[derive(Clone, Debug)]
pub struct TagNote {
    /// Its name in ManyChat; `None` when none was attempted.
    pub name: Option<String>,
    /// `attempting`, `added`, `failed`, `unknown`, `expired`; `None` when it was never attempted.
    pub state: Option<String>,
    /// After closing: `attempting`, `removed`, `failed`, `unknown`; `None` when no removal was attempted.
    pub removal: Option<String>,
    /// Kind of the last failure.
    pub error: Option<String>,
}

/// Which handoffs to close.
#[derive(Clone, Debug)]
pub enum Target {
    /// One handoff by its id, or all of a conversation by the conversation's.
    Id(Uuid),
    /// All of a contact.
    Subscriber(SubscriberId),
}

/// A handoff that was closed just now.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Its id.
    pub id: Uuid,
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// The tag that will be taken off; `None` when none was added.
    pub tag: Option<String>,
}

/// What there was to close.
#[derive(Clone, Debug)]
pub enum Closing {
    /// These were closed.
    Closed(Vec<Closed>),
    /// The handoff, conversation or contact exists and has nothing open.
    NothingOpen,
    /// The tenant has no such handoff, conversation or contact.
    Unknown,
}

/// Why a pause ended without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// The minutes have passed (DEC-9).
    PauseOver,
    /// The contact no longer has the tag.
    TagGone,
}

impl PauseEnd {
    /// The word of `rs_handoffs.closed_by`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PauseOver => "pause_over",
            Self::TagGone => "tag_gone",
        }
    }
}

/// Handoffs of the tenant, oldest first, at most `most`; with `all` the closed ones too.
///
/// # Errors
/// [`StoreError::NoTables`] or [`StoreError::OldTables`] on a database that this version has not migrated.
pub async fn list(
    client: &Client,
    tenant: &TenantId,
    all: bool,
    most: i64,
) -> Result<Vec<HandoffRow>, StoreError> {
    let rows = client.query(LIST, &[&tenant.as_str(), &all, &most]).await.map_err(StoreError::of_command)?;
    rows.iter().map(handoff_of).collect()
}

fn handoff_of(row: &Row) -> Result<HandoffRow, StoreError> {
    Ok(HandoffRow {
        id: row.try_get("id")?,
        conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
        reason: row.try_get("reason")?,
        opened_at: row.try_get("opened_at")?,
        age_secs: row.try_get("age")?,
        closed_at: row.try_get("closed_at")?,
        closed_by: row.try_get("closed_by")?,
        tag: TagNote {
            name: row.try_get("tag")?,
            state: row.try_get("tag_state")?,
            removal: row.try_get("untag_state")?,
            error: row.try_get("tag_error")?,
        },
    })
}

/// Closes what the operator names, of this tenant only (PROC-7). The workers take the tag off.
///
/// # Errors
/// As [`list`].
pub async fn close(client: &Client, tenant: &TenantId, target: &Target) -> Result<Closing, StoreError> {
    let (id, subscriber) = match target {
        Target::Id(id) => (Some(*id), None),
        Target::Subscriber(subscriber) => (None, Some(subscriber.expose())),
    };
    let rows =
        client.query(CLOSE, &[&tenant.as_str(), &id, &subscriber]).await.map_err(StoreError::of_command)?;
    if !rows.is_empty() {
        return Ok(Closing::Closed(rows.iter().map(closed_of).collect::<Result<_, _>>()?));
    }
    let known: bool =
        client.query_one(KNOWN, &[&tenant.as_str(), &id, &subscriber]).await?.try_get("known")?;
    Ok(if known { Closing::NothingOpen } else { Closing::Unknown })
}

fn closed_of(row: &Row) -> Result<Closed, StoreError> {
    let state: Option<&str> = row.try_get("tag_state")?;
    let is_there = matches!(state, Some("added" | "unknown" | "attempting"));
    let tag: Option<String> = row.try_get("tag")?;
    Ok(Closed {
        id: row.try_get("id")?,
        conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
        tag: tag.filter(|_| is_there),
    })
}

/// Closes the open handoffs of a conversation because its pause has ended (DEC-9, DEC-35): those up to `called_seq`, the
/// latest that was known when the end was decided. A person who is called meanwhile stays called (DEC-25).
///
/// # Errors
/// When the write may not have arrived; the pause then goes on.
pub async fn end_pause(
    database: &Database,
    conversation: ConversationId,
    why: PauseEnd,
    called_seq: i64,
) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(END_PAUSE).await?;
    lease.client()?.execute(&statement, &[conversation.as_uuid(), &why.as_str(), &called_seq]).await?;
    lease.give_back();
    Ok(())
}

/// How many processes of the tenant are alive: without one nobody takes a tag off or delivers.
///
/// # Errors
/// As [`list`].
pub async fn processes_alive(client: &Client, tenant: &TenantId, dead_secs: f64) -> Result<i64, StoreError> {
    let row =
        client.query_one(WORKERS, &[&tenant.as_str(), &dead_secs]).await.map_err(StoreError::of_command)?;
    Ok(row.try_get("alive")?)
}
