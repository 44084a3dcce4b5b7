//! Contacts that have no token yet: counting them and issuing theirs (04 section 8.4, CLI-80 to CLI-85).

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{Database, StoreError};
use crate::domain::{ConversationId, SubscriberId, TenantId};

const WITHOUT_TOKEN: &str = "
    select count(*) from conversations c
    where c.tenant_id = $1 and c.token_hash is null
      and exists (select 1 from turns t where t.conversation_id = c.id and t.created_at >= $2)";

/// Tokens that were issued to contacts in scope and have not reached ManyChat: on their way, and given up. One that an
/// operator has discarded is accepted as lost.
const UNWRITTEN: &str = "
    select count(*) filter (where latest.status in ('pending', 'delivering')) as waiting,
           count(*) filter (where latest.status = 'failed' and latest.rs_discarded_at is null) as given_up
    from conversations c
    cross join lateral (select o.status, o.rs_discarded_at from outbox o where o.conversation_id = c.id and o.kind = 'contact_token'
                        order by o.created_at desc limit 1) latest
    where c.tenant_id = $1 and c.token_hash is not null
      and exists (select 1 from turns t where t.conversation_id = c.id and t.created_at >= $2)";

const CANDIDATES: &str = "
    select c.id, c.subscriber_id from conversations c
    where c.tenant_id = $1 and c.token_hash is null
      and c.subscriber_id >= coalesce($3::text, '') and c.subscriber_id is distinct from $3
      and exists (select 1 from turns t where t.conversation_id = c.id and t.created_at >= $2)
    order by c.subscriber_id limit $4";

/// Issues as Open does (TOK-21, TOK-22), and only while the contact still has no token (BF-3).
const ISSUE: &str = "
    with issued as (
      update conversations c
      set token_hash = $2::text, token_issued_at = $3::timestamptz, token_generation = c.token_generation + 1,
          updated_at = now()
      where c.id = $1 and c.token_hash is null
      returning c.tenant_id, c.subscriber_id, c.id, c.token_generation)
    insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, next_attempt_at)
    select tenant_id, subscriber_id, id, 'contact_token', jsonb_build_object('generation', token_generation),
           now() + interval '60 seconds'
    from issued
    returning id";

/// Which contacts a backfill is about (BF-2).
#[derive(Clone, Debug)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantId,
    /// Contacts with a turn since then.
    pub since: Timestamp,
}

impl Scope {
    /// The contacts of the last `days` days before `now`.
    #[must_use]
    pub fn of_days(tenant: TenantId, days: u32, now: Timestamp) -> Self {
        let span = SignedDuration::from_hours(i64::from(days).saturating_mul(24));
        Self { tenant, since: now.checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH) }
    }
}

/// A contact without a token.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its conversation.
    pub conversation: ConversationId,
    /// Whose field the token goes to.
    pub subscriber: SubscriberId,
}

/// Tokens that were issued and have not reached ManyChat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The outbox worker will try again.
    pub waiting: i64,
    /// The contact's next message issues anew; without those that an operator has discarded.
    pub given_up: i64,
}

/// Counts the contacts without a token (BF-6).
///
/// # Errors
/// [`StoreError::NoTables`] on a database that no process has migrated; otherwise what the server answers.
pub async fn contacts_without_token(client: &Client, scope: &Scope) -> Result<i64, StoreError> {
    let row = client.query_one(WITHOUT_TOKEN, &[&scope.tenant.as_str(), &scope.since]).await;
    Ok(row.map_err(StoreError::of_command)?.try_get(0)?)
}

/// Counts the contacts that have a token which ManyChat does not have.
///
/// # Errors
/// As [`contacts_without_token`].
pub async fn unwritten_tokens(client: &Client, scope: &Scope) -> Result<Unwritten, StoreError> {
    let row = client.query_one(UNWRITTEN, &[&scope.tenant.as_str(), &scope.since]).await;
    let row = row.map_err(StoreError::of_command)?;
    Ok(Unwritten { waiting: row.try_get("waiting")?, given_up: row.try_get("given_up")? })
}

/// The next contacts without a token, in the order of their ids, behind `after`; at most `most`.
///
/// # Errors
/// When the database does not answer.
pub async fn candidates(
    database: &Database,
    scope: &Scope,
    after: Option<&SubscriberId>,
    most: i64,
) -> Result<Vec<Candidate>, StoreError> {
    let after = after.map(SubscriberId::expose);
    let lease = database.lease().await?;
    let statement = lease.prepared(CANDIDATES).await?;
    let rows =
        lease.client()?.query(&statement, &[&scope.tenant.as_str(), &scope.since, &after, &most]).await?;
    lease.give_back();
    let candidate = |row: &tokio_postgres::Row| {
        Ok(Candidate {
            conversation: ConversationId::from(row.try_get::<_, Uuid>("id")?),
            subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
        })
    };
    rows.iter().map(candidate).collect()
}

/// Issues a token with this digest. Returns the outbox row behind the write; `None` when the contact has got a token
/// meanwhile: write nothing then.
///
/// # Errors
/// When the statement may not have run. If it has, the worker writes a token of its own after a minute.
pub async fn issue(
    database: &Database,
    conversation: ConversationId,
    digest: &str,
    now: Timestamp,
) -> Result<Option<Uuid>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(ISSUE).await?;
    let row = lease.client()?.query_opt(&statement, &[conversation.as_uuid(), &digest, &now]).await?;
    lease.give_back();
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
