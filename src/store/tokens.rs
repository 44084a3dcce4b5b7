//! Contact tokens after their issue: the write that succeeded, and the worker's retry (TOK-24, TOK-30 to TOK-32). The
//! issue itself is part of Open. Only digests come here, never a token (TOK-2).

use uuid::Uuid;

use super::outbox::{Claimant, Held, TokenClaim, fenced};
use super::{Database, StoreError};

/// The write beside the request has succeeded: the worker has nothing left to do.
const WRITTEN: &str = "
    update outbox set status = 'delivered', delivered_at = now(), last_error = null
    where id = $1 and kind = 'contact_token' and status = 'pending'";

/// Stores the digest of the token that is about to be written, while no newer one has been issued. The previous
/// token, the time of issue and the generation stay (TOK-30). The digest it replaces stays valid beside it: its write
/// may have landed without an answer, or may yet land (GAP-DL-15).
const REPLACE: &str = "
    with held as (
      select conversation_id from outbox
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3),
    replaced as (
      update conversations c
      set token_hash = $5::text, rs_unwritten_token = c.token_generation || ':' || c.token_hash, updated_at = now()
      from held where c.id = held.conversation_id and c.token_generation = $4
      returning 1)
    select exists (select 1 from replaced) as current from held";

/// Keeps a claim alive while its write waits for its turn at ManyChat.
const RENEW: &str = "
    update outbox set rs_lease_until = clock_timestamp() + make_interval(secs => $4)
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// The token is written, or a newer one has made the row void.
const DELIVERED: &str = "
    update outbox
    set status = 'delivered', delivered_at = now(), last_error = null, rs_process_id = null, rs_lease_until = null
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// Gives the row back for a later attempt. Nothing else of the contact waits for it (WRK-5).
const RETRY: &str = "
    update outbox
    set status = 'pending', last_error = $4, rs_process_id = null, rs_lease_until = null,
        next_attempt_at = clock_timestamp() + make_interval(secs => $5)
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// Gives the row up, without mark and handoff (DEC-35). Nobody holds the token whose digest is stored, so the next
/// message without a valid one issues anew, without waiting for the hour (GAP-DL-16), and keeps the previous token valid.
const DEAD_LETTER: &str = "
    with held as (
      update outbox set status = 'failed', last_error = $4, rs_process_id = null, rs_lease_until = null
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id),
    reopened as (
      update conversations c set token_issued_at = null, updated_at = now()
      from held where c.id = held.conversation_id and c.token_generation = $5)
    select 1 as held from held";

/// Gives the row back unattempted (WRK-11).
const RELEASE: &str = "
    update outbox
    set status = 'pending', attempts = attempts - 1, rs_process_id = null, rs_lease_until = null
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// Notes that an issued token has reached ManyChat: its outbox row becomes `delivered` if it still waits (TOK-24).
///
/// # Errors
/// When the statement may not have run. The worker then writes another token after a minute, which does no harm.
pub async fn written(database: &Database, row: Uuid) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(WRITTEN).await?;
    lease.client()?.execute(&statement, &[&row]).await?;
    lease.give_back();
    Ok(())
}

/// Whether a claimed row still asks for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The digest is stored: write the token.
    Yes,
    /// A newer token has been issued, or there is no conversation: write nothing (TOK-31).
    Outdated,
    /// Somebody else has taken the row over.
    Lost,
}

/// Stores the digest of a fresh token for a claimed row.
///
/// # Errors
/// When the statement may not have run; write nothing then. The claim ends with its lease.
pub async fn replace(database: &Database, claim: &TokenClaim, digest: &str) -> Result<Replaced, StoreError> {
    let Some(generation) = claim.generation else { return Ok(Replaced::Outdated) };
    let lease = database.lease().await?;
    let statement = lease.prepared(REPLACE).await?;
    let fence = (&claim.id, claim.process.as_uuid(), &claim.attempt);
    let row =
        lease.client()?.query_opt(&statement, &[fence.0, fence.1, fence.2, &generation, &digest]).await?;
    lease.give_back();
    match row {
        None => Ok(Replaced::Lost),
        Some(row) if row.try_get("current")? => Ok(Replaced::Yes),
        Some(_) => Ok(Replaced::Outdated),
    }
}

/// The claim is still being worked on.
///
/// # Errors
/// When the write may not have arrived.
pub async fn renew(database: &Database, claimant: &Claimant, claim: &TokenClaim) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RENEW, &[&claimant.lease.as_secs_f64()]).await
}

/// The row is done (TOK-31).
///
/// # Errors
/// When the write may not have arrived.
pub async fn delivered(database: &Database, claim: &TokenClaim) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), DELIVERED, &[]).await
}

/// Another attempt after `delay` (TOK-32). `error` quotes nothing of ManyChat (BOX-15).
///
/// # Errors
/// When the write may not have arrived.
pub async fn retry(
    database: &Database,
    claim: &TokenClaim,
    error: &str,
    delay: std::time::Duration,
) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RETRY, &[&error, &delay.as_secs_f64()]).await
}

/// No further attempt. `error` quotes nothing of ManyChat (BOX-15).
///
/// # Errors
/// When the write may not have arrived.
pub async fn dead_letter(database: &Database, claim: &TokenClaim, error: &str) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), DEAD_LETTER, &[&error, &claim.generation]).await
}

/// Gives the row back as if it had not been claimed.
///
/// # Errors
/// When the write may not have arrived.
pub async fn release(database: &Database, claim: &TokenClaim) -> Result<Held, StoreError> {
    fenced(database, claim.fence(), RELEASE, &[]).await
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
