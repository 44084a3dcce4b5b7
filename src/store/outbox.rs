//! The outbox: claims of each contact's oldest queued reply, progress inside a reply, retries, dead letters (04
//! sections 4 and 5, ARC-47). A claim is fenced by its process and attempt: a write that comes too late changes
//! nothing.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use self::statements::{
    CLAIM, DEAD_LETTER, DELIVERED, NEXT_DUE, PROGRESS, RELEASE, RENEW, RETRY, WATCH_FOREIGN,
};
use super::actions::{OpenActions, opened_of};
use super::open::back;
use super::{Database, StoreError};
use crate::domain::{ConversationId, ProcessId, Redacted, SubscriberId, TenantId};

/// Whether nobody works on the row `o` any longer although it is `delivering`: a dead process holds it, or its lease has
/// ended. $3 asks, $5 makes dead.
macro_rules! let_go {
    () => {
        concat!(
            "(o.rs_process_id is null and o.rs_lease_until <= now()
             and o.rs_lease_until - interval '15 minutes' >= o.next_attempt_at
          or o.rs_process_id is not null
             and (o.rs_lease_until <= now() or ",
            dead!("o.rs_process_id", own: "$3", after: "$5"),
            "))"
        )
    };
}

mod statements;

/// A reply that this process delivers now.
#[derive(Debug)]
pub struct Claim {
    /// The process that claimed it, by the id it had then.
    pub process: ProcessId,
    /// Id of the row; the only thing of it that a log names.
    pub id: Uuid,
    /// Whom it goes to.
    pub subscriber: SubscriberId,
    /// The conversation; `None` on old rows of the reference.
    pub conversation: Option<ConversationId>,
    /// The texts in order, one delivery each.
    pub texts: Redacted<Vec<String>>,
    /// This attempt, 1 for the first. Together with the process it fences every write about the claim.
    pub attempt: i32,
    /// Texts that earlier attempts have delivered.
    pub sent: usize,
    /// How long the reply has existed, or since an operator gave it a fresh window.
    pub age: Duration,
    /// How long to wait before the first text, so that the contact's texts keep their distance; never longer than that.
    pub pause: Duration,
    /// The contact wrote too long ago for the channel to take a reply: send nothing, give it up (ARC-46).
    pub unreachable: bool,
}

/// Who claims and for how long.
#[derive(Clone, Debug)]
pub struct Claimant {
    /// Rows of this tenant only (PROC-7).
    pub tenant: TenantId,
    /// This process.
    pub process: ProcessId,
    /// Longest time between two signs of life of a claim.
    pub lease: Duration,
    /// After how long without a beat a process is dead.
    pub dead: Duration,
    /// Distance between two texts to one contact (PACE-1).
    pub gap: Duration,
}

/// Whether a claim was still ours when its write arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The write took effect.
    Yes,
    /// Somebody else has taken the row over: stop sending.
    Lost,
}

/// What fences every write about a claim: its row, the process that claimed it, and its attempt.
pub(super) type ClaimFence = (Uuid, ProcessId, i32);

impl Claim {
    const fn fence(&self) -> ClaimFence {
        (self.id, self.process, self.attempt)
    }
}

impl TokenClaim {
    pub(super) const fn fence(&self) -> ClaimFence {
        (self.id, self.process, self.attempt)
    }
}

/// A contact token that this process writes anew (TOK-30).
#[derive(Debug)]
pub struct TokenClaim {
    /// The process that claimed it, by the id it had then.
    pub process: ProcessId,
    /// Id of the row.
    pub id: Uuid,
    /// Whose token it is.
    pub subscriber: SubscriberId,
    /// The generation the row was made for; `None` when the row names none or has no conversation (TOK-31).
    pub generation: Option<i32>,
    /// This attempt, 1 for the first. Together with the process it fences every write about the claim.
    pub attempt: i32,
    /// How long the row has existed.
    pub age: Duration,
}

/// What one look has claimed.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Replies, in no order: each is of another contact.
    pub replies: Vec<Claim>,
    /// Tokens to write.
    pub tokens: Vec<TokenClaim>,
}

/// Hours after a contact's last message in which the channel takes replies (QUIET-3).
const WINDOW_HOURS: i64 = 24;

/// Claims up to `most` due replies and up to `most_tokens` due token rows. `now` is business time (ARC-50). `claimant` is asked
/// when the connection is had: the wait for it can be long, and the process may have fallen silent meanwhile (ARC-44). `None`:
/// nothing is claimed.
///
/// # Errors
/// When the database does not answer; a claim that was made all the same ends with its lease.
pub async fn claim(
    database: &Database,
    claimant: impl FnOnce() -> Option<Claimant>,
    most: i64,
    most_tokens: i64,
    now: Timestamp,
) -> Result<Claimed, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(CLAIM).await?;
    let Some(claimant) = claimant() else {
        lease.give_back();
        return Ok(Claimed::default());
    };
    let (seconds, dead) = (claimant.lease.as_secs_f64(), claimant.dead.as_secs_f64());
    let (tenant, since) = (claimant.tenant.as_str(), back(now, WINDOW_HOURS));
    let values: &[&(dyn ToSql + Sync)] =
        &[&tenant, &most, claimant.process.as_uuid(), &seconds, &dead, &most_tokens, &since];
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    let mut claimed = Claimed::default();
    for row in &rows {
        match row.try_get("kind")? {
            "reply" => claimed.replies.push(claim_of(row, &claimant)?),
            _ => claimed.tokens.push(token_claim_of(row, claimant.process)?),
        }
    }
    Ok(claimed)
}

fn token_claim_of(row: &Row, process: ProcessId) -> Result<TokenClaim, StoreError> {
    let payload: Value = row.try_get("payload")?;
    let conversation: Option<Uuid> = row.try_get("conversation_id")?;
    let generation = payload.get("generation").and_then(Value::as_i64);
    Ok(TokenClaim {
        id: row.try_get("id")?,
        process,
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        generation: generation
            .filter(|_| conversation.is_some())
            .and_then(|number| i32::try_from(number).ok()),
        attempt: row.try_get("attempts")?,
        age: seconds(row.try_get("age")?),
    })
}

fn claim_of(row: &Row, claimant: &Claimant) -> Result<Claim, StoreError> {
    let payload: Value = row.try_get("payload")?;
    let sent: i32 = row.try_get("sent")?;
    let conversation: Option<Uuid> = row.try_get("conversation_id")?;
    // The distance alone may be waited for, whatever a clock that was set back says (ARC-42).
    let pause = seconds(row.try_get::<_, Option<f64>>("pause")?.unwrap_or(0.0)).min(claimant.gap);
    Ok(Claim {
        process: claimant.process,
        id: row.try_get("id")?,
        subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        conversation: conversation.map(ConversationId::from),
        texts: Redacted::new(texts_of(&payload)),
        attempt: row.try_get("attempts")?,
        sent: usize::try_from(sent).unwrap_or(0),
        age: seconds(row.try_get("age")?),
        pause,
        unreachable: row.try_get("unreachable")?,
    })
}

/// The texts of a reply payload; keys we do not know are ignored (DB-12).
fn texts_of(payload: &Value) -> Vec<String> {
    let messages = payload.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::ZERO)
}

/// Puts a lease on rows the reference claimed, and says when the next row is due; `None`: none is queued. Token rows
/// count only with `tokens`.
///
/// # Errors
/// When the database does not answer.
pub async fn next_due(
    database: &Database,
    tenant: &TenantId,
    tokens: bool,
) -> Result<Option<Duration>, StoreError> {
    let lease = database.lease().await?;
    let watch = lease.prepared(WATCH_FOREIGN).await?;
    lease.client()?.execute(&watch, &[&tenant.as_str()]).await?;
    let statement = lease.prepared(NEXT_DUE).await?;
    let row = lease.client()?.query_one(&statement, &[&tenant.as_str(), &tokens]).await?;
    lease.give_back();
    Ok(row.try_get::<_, Option<f64>>("due")?.map(seconds))
}

/// `sent` texts are out.
///
/// # Errors
/// When the write may not have arrived.
pub async fn progress(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    sent: usize,
) -> Result<Held, StoreError> {
    let (lease, gap) = (claimant.lease.as_secs_f64(), claimant.gap.as_secs_f64());
    fenced(database, claim.fence(), PROGRESS, &[&count(sent), &lease, &gap]).await
}

/// The claim is still being worked on; `sent` texts are out.
///
/// # Errors
/// When the write may not have arrived.
pub async fn renew(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    sent: usize,
) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RENEW, &[&count(sent), &claimant.lease.as_secs_f64()]).await
}

/// All texts are out. Returns the actions that are open now; `None` when somebody else has taken the row over.
///
/// # Errors
/// When the write may not have arrived.
pub async fn delivered(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
) -> Result<Option<Vec<OpenActions>>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(DELIVERED).await?;
    let sent = count(claim.texts.expose().len());
    let values: &[&(dyn ToSql + Sync)] =
        &[&claim.id, claim.process.as_uuid(), &claim.attempt, &sent, &claimant.gap.as_secs_f64()];
    let row = lease.client()?.query_one(&statement, values).await?;
    lease.give_back();
    let held: bool = row.try_get("held")?;
    Ok(if held { Some(opened_of(&row, claim.process)?) } else { None })
}

/// Another attempt after `delay`. `error` is already redacted.
///
/// # Errors
/// When the write may not have arrived.
pub async fn retry(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    error: &str,
    delay: Duration,
) -> Result<Held, StoreError> {
    let gap = claimant.gap.as_secs_f64();
    fenced(database, claim.fence(), RETRY, &[&error, &delay.as_secs_f64(), &gap]).await
}

/// What stands between how much of a reply is out and why the rest is not.
const REACHED: &str = " texts reached ManyChat; the rest: ";

/// Why a reply of `texts` texts was given up, `sent` of which are out: nobody should take it for one of which the contact has
/// read nothing. `error` is already redacted.
#[must_use]
pub fn reason_of(sent: usize, texts: usize, error: &str) -> String {
    if sent == 0 { error.to_owned() } else { format!("{sent} of {texts}{REACHED}{error}") }
}

/// The error in a reason of [`reason_of`].
pub(super) fn error_in(reason: &str) -> &str {
    reason.split_once(REACHED).map_or(reason, |(_, error)| error)
}

/// No further attempt. `error` is already redacted.
///
/// # Errors
/// When the write may not have arrived.
pub async fn dead_letter(
    database: &Database,
    claimant: &Claimant,
    claim: &Claim,
    error: &str,
) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), DEAD_LETTER, &[&error, &claimant.gap.as_secs_f64()]).await
}

/// Gives the row back as if it had not been claimed.
///
/// # Errors
/// When the write may not have arrived.
pub async fn release(database: &Database, claim: &Claim) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RELEASE, &[]).await
}

/// Runs a statement whose first three parameters are the claim's fence: its row and attempt, and the process.
pub(super) async fn fenced(
    database: &Database,
    (id, process, attempt): ClaimFence,
    sql: &'static str,
    more: &[&(dyn ToSql + Sync)],
) -> Result<Held, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(sql).await?;
    let fence: [&(dyn ToSql + Sync); 3] = [&id, process.as_uuid(), &attempt];
    let values: Vec<&(dyn ToSql + Sync)> = fence.into_iter().chain(more.iter().copied()).collect();
    let changed = lease.client()?.execute(&statement, &values).await?;
    lease.give_back();
    Ok(if changed == 0 { Held::Lost } else { Held::Yes })
}

fn count(texts: usize) -> i32 {
    i32::try_from(texts).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
