//! The outbox as an operator sees and mends it (GAP-DL-10): what is queued or dead, by kind, state, age and class of
//! error, never by its words or its contact; a fresh window for a dead letter, or the decision that it is never sent.

use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::{StoreError, outbox};
use crate::domain::{ConversationId, TenantId, delivery_error as words};

/// Where a listening worker would hear that a row became due (ARC-47a); the payload is the tenant. The workers of this
/// version look once a second in any case.
pub const WAKE_CHANNEL: &str = "rs_outbox";

macro_rules! columns {
    () => {
        "o.id, o.kind, o.conversation_id, o.attempts, o.last_error, o.created_at, o.delivered_at, o.next_attempt_at,
         case when o.status = 'failed' and o.rs_discarded_at is not null then 'discarded'
              when o.status = 'failed' then 'dead' else o.status end as state,
         extract(epoch from now() - o.created_at)::float8 as age,
         extract(epoch from o.next_attempt_at - now())::float8 as due_in,
         coalesce(o.rs_texts_sent, 0) as sent,
         case when jsonb_typeof(o.payload -> 'messages') = 'array' then array(
           select length(m.value #>> '{}') from jsonb_array_elements(o.payload -> 'messages')
             with ordinality as m(value, place) order by m.place) else '{}' end as lengths,
         case when jsonb_typeof(o.payload -> 'actions') = 'array' then array(
           select concat(a.value ->> 'tool', ' ', a.value ->> 'id', '=' || (a.value ->> 'value'))
           from jsonb_array_elements(o.payload -> 'actions') with ordinality as a(value, place)
           order by a.place) else '{}' end as actions"
    };
}

const LIST: &str = concat!(
    "select * from (select ",
    columns!(),
    " from outbox o where o.tenant_id = $1 and o.status = any ($4)) r
     where r.state = any ($2) order by r.created_at, r.id limit $3"
);

const SHOW: &str = concat!("select ", columns!(), " from outbox o where o.tenant_id = $1 and o.id = $2");

/// A fresh window, and attempts from the beginning. Texts that are out stay out. Dropped actions stay dropped (BOX-17).
///
/// The contact's replies that wait become due a second later: whoever is claiming one of them at this moment has not
/// seen the older one, finds the row changed, and looks again (GAP-DL-4).
const RETRY: &str = "
    with dead as (
      select id, kind, tenant_id, subscriber_id from outbox
      where tenant_id = $1 and status = 'failed' and rs_discarded_at is null and ($3 or id = any ($2))
      for update),
    later as (
      update outbox o set next_attempt_at = greatest(o.next_attempt_at, clock_timestamp() + interval '1 second')
      where o.tenant_id = $1 and o.kind = 'reply' and o.status = 'pending'
        and o.subscriber_id in (select subscriber_id from dead where kind = 'reply')
      returning 1)
    update outbox o
    set status = 'pending', attempts = 0, next_attempt_at = now(), rs_window_from = now(),
        rs_process_id = null, rs_lease_until = null, payload = o.payload - 'actions' - 'turnId'
    from dead where o.id = dead.id
    returning o.id";

const DISCARD: &str = "
    update outbox set rs_discarded_at = now()
    where tenant_id = $1 and status = 'failed' and rs_discarded_at is null and ($3 or id = any ($2))
    returning id";

const STATES: &str =
    concat!("select ", columns!(), " from outbox o where o.tenant_id = $1 and o.id = any ($2)");

/// In a transaction of its own, after the change is committed (ARC-47a).
const WAKE: &str = "select pg_notify($1, $2)";

/// What a row can be. `dead` and `discarded` are both stored as `failed`, the reference's word (COMP-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for its time.
    Pending,
    /// Is being delivered.
    Delivering,
    /// Every text is out.
    Delivered,
    /// Given up; an operator decides.
    Dead,
    /// An operator decided that it is never sent.
    Discarded,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Delivering, Self::Delivered, Self::Dead, Self::Discarded];

    /// The word an operator reads and types.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivering => "delivering",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }

    /// The word of `outbox.status`.
    const fn stored(self) -> &'static str {
        match self {
            Self::Dead | Self::Discarded => "failed",
            Self::Pending | Self::Delivering | Self::Delivered => self.as_str(),
        }
    }

    fn of(word: &str) -> Result<Self, StoreError> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or(StoreError::Unexpected { what: "outbox.status" })
    }
}

/// One row, without its words and its contact.
#[derive(Clone, Debug)]
pub struct OutboxRow {
    /// Its id.
    pub id: Uuid,
    /// `reply` or `contact_token`.
    pub kind: String,
    /// The contact's conversation; `None` on some rows of the reference.
    pub conversation: Option<ConversationId>,
    /// What it is.
    pub state: State,
    /// Attempts so far, in the present window.
    pub attempts: i32,
    /// When it was written.
    pub created_at: Timestamp,
    /// When its last text went out.
    pub delivered_at: Option<Timestamp>,
    /// Seconds since it was written.
    pub age_secs: f64,
    /// Seconds until it is due; negative when it has been.
    pub due_in_secs: f64,
    /// Characters of each of its texts; empty for a token.
    pub lengths: Vec<i32>,
    /// How many of them are out.
    pub sent: i32,
    /// The actions that follow the reply, as `tool id` or `tool id=value`: configured words only.
    pub actions: Vec<String>,
    /// Class of the last failure; `None` when there was none. How many texts are out stands in `sent`.
    pub error: Option<String>,
}

/// What to change.
#[derive(Clone, Debug)]
pub enum Which {
    /// These rows.
    Ids(Vec<Uuid>),
    /// Every dead row of the tenant.
    AllDead,
}

/// What was changed and what was not.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Rows that were changed.
    pub done: Vec<Uuid>,
    /// Rows that were not: with their state, or `None` when the tenant has no such row.
    pub refused: Vec<(Uuid, Option<State>)>,
}

/// Rows of the tenant in these states, oldest first, at most `most`.
///
/// # Errors
/// [`StoreError::NoTables`] or [`StoreError::OldTables`] on a database that this version has not migrated.
pub async fn list(
    client: &Client,
    tenant: &TenantId,
    states: &[State],
    most: i64,
) -> Result<Vec<OutboxRow>, StoreError> {
    let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    // What is stored leads to the rows by the index; a table of delivered replies is long.
    let stored: Vec<&str> = states.iter().map(|state| state.stored()).collect();
    let rows = query(client, LIST, &[&tenant.as_str(), &words, &most, &stored]).await?;
    rows.iter().map(row_of).collect()
}

/// One row of the tenant; `None` when there is none.
///
/// # Errors
/// As [`list`].
pub async fn show(client: &Client, tenant: &TenantId, id: Uuid) -> Result<Option<OutboxRow>, StoreError> {
    query(client, SHOW, &[&tenant.as_str(), &id]).await?.first().map(row_of).transpose()
}

/// Makes dead rows pending again with a fresh window, and wakes the workers.
///
/// # Errors
/// As [`list`].
pub async fn retry(client: &Client, tenant: &TenantId, which: &Which) -> Result<Changed, StoreError> {
    let changed = change(client, RETRY, tenant, which).await?;
    if !changed.done.is_empty() {
        query(client, WAKE, &[&WAKE_CHANNEL, &tenant.as_str()]).await?;
    }
    Ok(changed)
}

/// Decides that dead rows are never sent.
///
/// # Errors
/// As [`list`].
pub async fn discard(client: &Client, tenant: &TenantId, which: &Which) -> Result<Changed, StoreError> {
    change(client, DISCARD, tenant, which).await
}

async fn change(client: &Client, sql: &str, tenant: &TenantId, which: &Which) -> Result<Changed, StoreError> {
    let (ids, all) = match which {
        Which::Ids(ids) => (ids.as_slice(), false),
        Which::AllDead => (&[][..], true),
    };
    let rows = query(client, sql, &[&tenant.as_str(), &ids, &all]).await?;
    let done: Vec<Uuid> = rows.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>()?;
    let left: Vec<Uuid> = ids.iter().copied().filter(|id| !done.contains(id)).collect();
    let refused = if left.is_empty() { Vec::new() } else { states_of(client, tenant, &left).await? };
    Ok(Changed { done, refused })
}

async fn states_of(
    client: &Client,
    tenant: &TenantId,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, Option<State>)>, StoreError> {
    let rows = query(client, STATES, &[&tenant.as_str(), &ids]).await?;
    let known: Vec<OutboxRow> = rows.iter().map(row_of).collect::<Result<_, _>>()?;
    let state = |id: &Uuid| known.iter().find(|row| row.id == *id).map(|row| row.state);
    Ok(ids.iter().map(|id| (*id, state(id))).collect())
}

async fn query(client: &Client, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
    client.query(sql, values).await.map_err(StoreError::of_command)
}

fn row_of(row: &Row) -> Result<OutboxRow, StoreError> {
    let conversation: Option<Uuid> = row.try_get("conversation_id")?;
    let error: Option<&str> = row.try_get("last_error")?;
    Ok(OutboxRow {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        conversation: conversation.map(ConversationId::from),
        state: State::of(row.try_get("state")?)?,
        attempts: row.try_get("attempts")?,
        created_at: row.try_get("created_at")?,
        delivered_at: row.try_get("delivered_at")?,
        age_secs: row.try_get("age")?,
        due_in_secs: row.try_get("due_in")?,
        lengths: row.try_get("lengths")?,
        sent: row.try_get("sent")?,
        actions: row.try_get("actions")?,
        error: error.map(class_of),
    })
}

/// The class of a stored error. Its words stay behind: the reference stores ManyChat's own, which can quote a contact.
pub(crate) fn class_of(stored: &str) -> String {
    let error = outbox::error_in(stored);
    let status = || {
        let mut words = error.split([' ', ':', ',']);
        words.find(|word| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let with_status =
        |class: &str| status().map_or_else(|| class.to_owned(), |code| format!("{class} {code}"));
    if error.starts_with(words::REFUSED) {
        with_status("refused")
    } else if error.starts_with(words::ANSWERED) {
        with_status("unexpected answer")
    } else if error.starts_with(words::NO_ANSWER) {
        let known = [words::TIMEOUT, words::ABORTED, words::NETWORK]
            .into_iter()
            .find(|reason| error.ends_with(reason));
        known.map_or_else(|| "no answer".to_owned(), |reason| format!("no answer ({reason})"))
    } else if error.starts_with(words::NO_TOKEN) {
        "no API token".to_owned()
    } else if error.starts_with(words::UNREACHABLE) {
        "too late".to_owned()
    } else if error.starts_with(words::TOKEN_WRITE_FAILED) {
        with_status("token write failed")
    } else {
        // Nobody knows whose digits those are.
        "other".to_owned()
    }
}

#[cfg(test)]
#[path = "outbox_operator_tests.rs"]
mod tests;
