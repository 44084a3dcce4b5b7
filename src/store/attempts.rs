//! Attempts of actions (ARC-46a): written before each request to ManyChat, finished after it, so that nobody tries one a
//! second time and what a dead process has done is known (ARC-41).

use serde_json::Value;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub(super) use self::statements::IN_TURN;
use self::statements::{AFTER, INHERITED, OfKind, RECOVERED};
use super::flight::behind_lock;
use super::{Database, StoreError};
use crate::domain::{AgentRowId, ConversationId, ProcessId, TurnId};

mod statements;

/// What became of the attempt `a`, as an entry of the record. Nobody knows of one that was not finished. What was to follow
/// it is no part of the record, and bears names of ManyChat (REC-3).
macro_rules! attempted {
    () => {
        "jsonb_strip_nulls((a.entry - 'followOn') || case
           when a.finished_at is null then jsonb_build_object(
             'status', 'failed', 'error', 'outcome unknown: the process ended before ManyChat answered')
           else jsonb_build_object('status', a.outcome, 'error', a.error) end)"
    };
}
pub(super) use attempted;

/// The entries of all attempts of the turn `$1`, in order; null without any. Those of a second run have numbers of their
/// own behind the first's.
macro_rules! attempts_of {
    ($turn:literal) => {
        concat!(
            "(select jsonb_agg(",
            crate::store::attempts::attempted!(),
            " order by a.action) from rs_attempts a where a.turn_id = ",
            $turn,
            " and a.entry is not null)"
        )
    };
}
pub(super) use attempts_of;

/// Finishes an attempt, with what an accepted action changes here: a written `link_sent` ends the pending follow-up
/// (PERF-8), a written offering is the contact's (PERF-7). `$5` and `$6` are set for accepted ones only.
pub(super) const FINISH: &str = "
    with done as (
      update rs_attempts set finished_at = now(), outcome = $3, error = $4
      where turn_id = $1 and action = $2 and finished_at is null
      returning 1),
    nudged as (
      update nudges set status = 'cancelled', cancel_reason = 'link_sent', updated_at = now()
      where $5 and conversation_id = $7 and status = 'pending'),
    offered as (
      update conversations set offering = $6, updated_at = now() where id = $7 and $6::text is not null)
    select count(*) as done from done";

/// Plans a follow-up and moves the pending one, if there is one (NTAB-3).
const SCHEDULE: &str = "
    insert into nudges (conversation_id, due_at) values ($1, now() + make_interval(mins => $2))
    on conflict (conversation_id) where status = 'pending'
    do update set due_at = excluded.due_at, scheduled_at = now(), updated_at = now()";

/// Under what an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// The running turn.
    Turn(TurnId),
    /// The running turn of a process that died: what was to follow the actions that it has performed.
    Inherited(TurnId),
    /// The actions behind this reply, which is out.
    Actions(AgentRowId),
    /// Such actions, found where nobody was at work on them.
    Recovered(AgentRowId),
}

impl Under {
    /// The id that the attempt is written down with.
    #[must_use]
    pub const fn as_uuid(&self) -> &Uuid {
        match self {
            Self::Turn(turn) | Self::Inherited(turn) => turn.as_uuid(),
            Self::Actions(row) | Self::Recovered(row) => row.as_uuid(),
        }
    }

    /// True while the turn's model runs.
    #[must_use]
    pub const fn is_turn(&self) -> bool {
        matches!(self, Self::Turn(_))
    }
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What it belongs to.
    pub under: Under,
    /// Number of the request within it.
    pub action: i32,
    /// The conversation.
    pub conversation: ConversationId,
    /// This process.
    pub process: ProcessId,
    /// What is attempted, as the record will name it; without a status. In a running turn with what is to be done when it
    /// was accepted, under `followOn`: whoever has to go on with the turn after a death makes it (ARC-41).
    pub entry: Value,
    /// True for the opening flow: its claim is taken with the attempt.
    pub claims_opening: bool,
    /// True when writing this very attempt down was tried before and nobody knows whether it arrived. Its request was
    /// not made then, so finding it unfinished is no reason not to make it.
    pub again: bool,
    /// For the write of a stage or an intent: the values behind it in the order of the sale. A turn that has written one of
    /// them has gone further (FN-STAGE-5, FN-INT-1).
    pub values_above: Option<Vec<&'static str>>,
    /// True for a flow that a contact gets once, and for an event: whoever attempts it first has it (LIM-7, FN-ONCE-1,
    /// FN-EVT-4).
    pub once: bool,
}

impl Attempt {
    /// Whether other turns of the contact have a say: then all of them are judged one after the other.
    #[must_use]
    pub const fn concerns_others(&self) -> bool {
        self.once || self.values_above.is_some()
    }
}

/// Whether the request may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is written down: go on.
    Yes,
    /// It was attempted before: never again.
    Before,
    /// Another turn has claimed the opening.
    OpeningTaken,
    /// A later turn of the contact has settled since its process died: it is not made any more (ARC-41).
    EndedFirst,
    /// The turn, or its actions, are somebody else's now.
    Superseded,
    /// Actions of an earlier turn are not all done: theirs come first (STAGE-6).
    Behind,
    /// Another turn's write of the same field is under way: try again when it has ended.
    Busy,
    /// Another turn of the contact has written a later stage, or `prospect`: never (FN-STAGE-5, FN-INT-1).
    Outrun,
    /// Another turn sends that flow, or has sent it: not once more (FN-ONCE-1).
    Taken,
    /// Another turn has fired that event: not once more, and nothing of it is recorded (FN-EVT-4, FN-EVT-10).
    Fired,
}

impl Begun {
    /// What the statement's word says; a word that this version does not know is no leave to go on.
    fn of(word: &str) -> Result<Self, StoreError> {
        Ok(match word {
            "yes" => Self::Yes,
            "before" => Self::Before,
            "opening_taken" => Self::OpeningTaken,
            "ended" => Self::EndedFirst,
            "superseded" => Self::Superseded,
            "behind" => Self::Behind,
            "busy" => Self::Busy,
            "outrun" => Self::Outrun,
            "taken" => Self::Taken,
            "fired" => Self::Fired,
            _ => return Err(StoreError::Unexpected { what: "the beginning of an attempt" }),
        })
    }
}

/// What became of an attempt.
#[derive(Clone, Debug, Default)]
pub struct Finish<'attempt> {
    /// Why it failed; `None`: ManyChat accepted it.
    pub error: Option<&'attempt str>,
    /// The write put the contact's payment on record.
    pub link_sent: bool,
    /// The offering it wrote.
    pub offering: Option<&'attempt str>,
}

/// What keeps the attempt back at this moment; `None`: nothing. Nothing is written, and it costs no place in ManyChat's rate:
/// whoever has to wait asks here, and [`begin`] has the last word (ARC-48).
///
/// # Errors
/// When the database does not answer.
pub async fn kept_back(database: &Database, attempt: &Attempt) -> Result<Option<Begun>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(statements_of(attempt.under).look).await?;
    let [turn, process, entry, values_above, once, ..] = values_of(attempt);
    let values = [turn, process, entry, values_above, once];
    let row = lease.client()?.query_one(&statement, &values).await?;
    lease.give_back();
    let begun = Begun::of(row.try_get("answer")?)?;
    Ok((begun != Begun::Yes).then_some(begun))
}

/// Writes down that the request is about to be made. Only [`Begun::Yes`] allows it.
///
/// # Errors
/// When the write may not have arrived: do not make the request.
pub async fn begin(database: &Database, attempt: &Attempt) -> Result<Begun, StoreError> {
    let lease = database.lease().await?;
    let sql = statements_of(attempt.under).begin;
    let row = if attempt.concerns_others() {
        // The lock comes in a statement before: one that waits for it reads what was there before its wait.
        behind_lock(&lease, attempt.conversation, sql, &values_of(attempt))
            .await?
            .ok_or(StoreError::Unexpected { what: "the beginning of an attempt" })?
    } else {
        let statement = lease.prepared(sql).await?;
        lease.client()?.query_one(&statement, &values_of(attempt)).await?
    };
    lease.give_back();
    Begun::of(row.try_get("answer")?)
}

const fn statements_of(under: Under) -> OfKind {
    match under {
        Under::Turn(_) => IN_TURN,
        Under::Inherited(_) => INHERITED,
        Under::Actions(_) => AFTER,
        Under::Recovered(_) => RECOVERED,
    }
}

fn values_of(attempt: &Attempt) -> [&(dyn ToSql + Sync); 8] {
    [
        attempt.under.as_uuid(),
        attempt.process.as_uuid(),
        &attempt.entry,
        &attempt.values_above,
        &attempt.once,
        &attempt.action,
        &attempt.claims_opening,
        &attempt.again,
    ]
}

/// Writes down what became of it.
///
/// # Errors
/// When the write may not have arrived: whoever finds the attempt takes its outcome for unknown.
pub async fn finish(database: &Database, attempt: &Attempt, finish: &Finish<'_>) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(FINISH).await?;
    let accepted = finish.error.is_none();
    let outcome = if accepted { "performed" } else { "failed" };
    let values: &[&(dyn ToSql + Sync)] = &[
        attempt.under.as_uuid(),
        &attempt.action,
        &outcome,
        &finish.error,
        &(accepted && finish.link_sent),
        &finish.offering.filter(|_| accepted),
        attempt.conversation.as_uuid(),
    ];
    lease.client()?.query_one(&statement, values).await?;
    lease.give_back();
    Ok(())
}

/// Plans a follow-up (NTOOL-4).
///
/// # Errors
/// When it may not be planned.
pub async fn schedule_nudge(
    database: &Database,
    conversation: ConversationId,
    minutes: u16,
) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(SCHEDULE).await?;
    lease.client()?.execute(&statement, &[conversation.as_uuid(), &i32::from(minutes)]).await?;
    lease.give_back();
    Ok(())
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
