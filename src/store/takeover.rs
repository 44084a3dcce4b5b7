//! A person has taken over (DEC-9): which open handoff pauses the agent, and the end of a turn that says nothing: its
//! messages stay recorded and are not counted, nothing is owed, the lane is free.

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::attempts::attempts_of;
use super::flight::behind_lock;
use super::{Database, StoreError};
use crate::domain::{ConversationId, Fence, ProcessId, TurnId};

/// Columns of a `select` from the conversation `c` that say whether it is paused: `tag_pending`, `called_seq`, the place of
/// the latest open handoff among turns and handoffs, and `quiet_secs`, the seconds since then; null when there is none, or when the agent has gone on since. It has when it
/// answered a message that came after the handoff with anything but another handoff: `rules.takeover` was not there
/// then, and a rule that comes later silences nobody in the middle of a chat.
///
/// Seconds are counted by the database's clock alone, and what came after the handoff stands behind it in the order of
/// `seq`: no time of the business clock is compared (ARC-50). Unbound turns neither prolong nor end a pause (TOK-13).
macro_rules! pause_columns {
    () => {
        "called.tag_pending, called.opened_seq as called_seq,
         case when called.opened_at is not null and not exists (
           select 1 from turns a
           where a.conversation_id = c.id and a.role = 'agent' and a.bound
             and coalesce(a.outcome, '') not in ('escalated_precheck', 'escalated_model', 'error', 'nudge_skipped')
             and a.seq > (select min(u.seq) from turns u
                          where u.conversation_id = c.id and u.role = 'user' and u.bound and u.seq > called.opened_seq))
         then extract(epoch from clock_timestamp() - called.opened_at)::float8 end as quiet_secs"
    };
}

/// The `from` item behind [`pause_columns`].
macro_rules! pause_join {
    () => {
        " cross join lateral (
            select max(p.opened_at) as opened_at, coalesce(max(p.opened_seq), 0) as opened_seq,
                   coalesce(bool_or(p.tag_state is null or p.tag_state = 'attempting'), false) as tag_pending
            from rs_handoffs p where p.conversation_id = c.id and p.closed_at is null) called "
    };
}

pub(super) use {pause_columns, pause_join};

/// Under the fence and behind the conversation's lock, as Settle. What Open counted for the cap
/// is taken back: a chat with a person must not end in the cap, which would be another handoff (CAP-4).
///
/// What a first run of the turn has sent, or may have, stays on record, in a row that is no part of the history, as where a
/// turn ends too late for any message: its flows are not offered again (ARC-41, ARC-46).
const HUSH: &str = concat!(
    "with contact as (
      select id from conversations where id = $1),
    lane as (
      update rs_lanes l set turn_id = null, process_id = null, expires_at = null
      from contact, rs_owed o
      where l.conversation_id = contact.id and l.turn_id = $2 and l.fence = $3
        and o.turn_id = $2 and o.status = 'running' and o.process_id = $4
      returning 1),
    ended as (
      delete from rs_owed o
      where o.turn_id = $2 and o.status = 'running' and o.process_id = $4
        and ($3::bigint is null or exists (select 1 from lane))
      returning user_turn_ids),
    agent as (
      insert into turns (conversation_id, role, text, outcome, bound, actions, created_at)
      select $1::uuid, 'agent', '', 'error', false, tried.actions, $5::timestamptz
      from ended, (select ",
    attempts_of!("$2"),
    " as actions) tried where tried.actions is not null),
    uncounted as (
      update conversations c
      set turn_count = greatest(0, c.turn_count - cardinality(ended.user_turn_ids)), updated_at = now()
      from ended where c.id = $1
      returning 1)
    select exists (select 1 from rs_inbox i where i.conversation_id = $1 and i.process_id <> $4) as others_wait
    from ended"
);

/// How a turn without a word ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hushed {
    /// It is over. `others_wait`: another process has messages of the contact.
    Ended {
        /// True when another process is to be told that the lane is free (ARC-47a).
        others_wait: bool,
    },
    /// Somebody else ended this turn.
    Superseded,
}

/// Ends the turn of `process` without a word; `now` by the business clock. There is no agent row but for what a first run of
/// the turn has attempted.
///
/// # Errors
/// [`StoreError::InDoubt`] when it may have been committed all the same; otherwise nothing has changed.
pub async fn hush(
    database: &Database,
    conversation: ConversationId,
    turn: TurnId,
    fence: Option<Fence>,
    process: ProcessId,
    now: Timestamp,
) -> Result<Hushed, StoreError> {
    let lease = database.lease().await?;
    let fence = fence.map(Fence::get);
    let values: &[&(dyn ToSql + Sync)] =
        &[conversation.as_uuid(), turn.as_uuid(), &fence, process.as_uuid(), &now];
    let ended = behind_lock(&lease, conversation, HUSH, values).await?;
    lease.give_back();
    match ended {
        Some(row) => Ok(Hushed::Ended { others_wait: row.try_get("others_wait")? }),
        None => Ok(Hushed::Superseded),
    }
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
