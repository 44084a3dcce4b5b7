//! The durable inbox: messages that wait behind a running turn, here or in another process (ARC-45a). The row is the
//! truth: a message is in the inbox or among `turns`, never in both, because Open moves it in one transaction.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::binding::binding_of;
use super::open::{NewMessage, parse_binding};
use super::processes::dead;
use super::{Database, StoreError};
use crate::domain::{
    Binding, ContactText, ConversationId, MediaKind, MessageId, ProcessId, Redacted, SubscriberId, TenantId,
};

/// Writes a message into the inbox and says how it proved its contact; an unbound one under enforcement is judged and
/// not written (LANE-3). The conversation's lock gives the rows of a contact an order that every process agrees on.
pub(super) const KEEP: &str = concat!(
    "with judged as (
       select c.id, ",
    binding_of!("$3", "$10", "$11"),
    " as binding from conversations c where c.tenant_id = $1 and c.subscriber_id = $2 for no key update),
     kept as (
       insert into rs_inbox (conversation_id, process_id, message_id, text, media_kind, token_digest, offering,
                             binding, received_at)
       select id, $5::uuid, $6::uuid, $7::text, $8::text, $3::text, $9::text, binding, $10::timestamptz
       from judged where binding <> 'unbound' or not $4
       on conflict (message_id) do update set process_id = excluded.process_id)
     select id, binding from judged"
);

/// Takes messages back out: what became of them is decided elsewhere.
const WITHDRAW: &str = "delete from rs_inbox where message_id = any ($1)";

/// Contacts whose first waiting message belongs to a dead process, or has waited so long that no living one can have it
/// in hand any more. Not those who are owed a turn first, and none of $4.
const ORPHANED: &str = concat!(
    "select h.conversation_id, c.subscriber_id, c.channel
    from (select distinct on (i.conversation_id) i.conversation_id, i.process_id, i.created_at
          from rs_inbox i order by i.conversation_id, i.id) h
    join conversations c on c.id = h.conversation_id
    where c.tenant_id = $1 and h.conversation_id <> all ($4::uuid[])
      and (h.created_at < now() - interval '30 minutes'
        or ",
    dead!("h.process_id", own: "$5", after: "$2"),
    ")
      and not exists (select 1 from rs_owed o where o.conversation_id = h.conversation_id
                      and o.status = 'running' and o.fence is not null)
    order by h.created_at limit $3"
);

/// A contact's waiting messages in order.
const WAITING: &str = "
    select message_id, process_id, text, media_kind, token_digest, offering, received_at
    from rs_inbox where conversation_id = $1 order by id limit 100";

/// Lets a message that another process took in a second time join the turn that answers the first (DEC-30): equal words
/// with an equal proof within 30 s, while the first request's process is dead. Its own process finds the row gone.
const JOIN_REPEATS: &str = "
    delete from rs_inbox
    where conversation_id = $1 and process_id <> $2 and text = $3 and media_kind is null and binding = $4
      and received_at between $5 and $5 + interval '30 seconds'";

/// A message that has to wait.
#[derive(Debug)]
pub struct Waiter {
    /// The tenant.
    pub tenant: TenantId,
    /// The contact.
    pub subscriber: SubscriberId,
    /// SHA-256 of the presented token in lower-case hex; `None` when none was presented.
    pub token_digest: Option<String>,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// The process that holds its request.
    pub process: ProcessId,
    /// The message.
    pub message: NewMessage,
    /// Now, by the business clock.
    pub now: Timestamp,
}

/// What became of a message that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It stands in the inbox.
    Yes,
    /// It proves nothing and waits for nobody (LANE-3).
    Beside,
    /// The contact has no conversation any more, so nothing runs that it could wait for.
    NoConversation,
}

/// Writes a message that has to wait; writing it twice writes it once.
///
/// # Errors
/// When the row may not be there; [`withdraw`] it before anything else is done with the message.
pub async fn keep(database: &Database, waiter: &Waiter) -> Result<Kept, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(KEEP).await?;
    let message = &waiter.message;
    let values: &[&(dyn ToSql + Sync)] = &[
        &waiter.tenant.as_str(),
        &waiter.subscriber.expose(),
        &waiter.token_digest,
        &waiter.tokens_enforced,
        waiter.process.as_uuid(),
        message.id.as_uuid(),
        &message.text.expose(),
        &message.media.map(MediaKind::as_str),
        &message.offering,
        &message.received_at,
        &waiter.now,
    ];
    let row = lease.client()?.query_opt(&statement, values).await?;
    lease.give_back();
    let Some(row) = row else { return Ok(Kept::NoConversation) };
    let beside = parse_binding(&row)? == Binding::Unbound && waiter.tokens_enforced;
    Ok(if beside { Kept::Beside } else { Kept::Yes })
}

/// Takes messages out of the inbox, whether they are there or not.
///
/// # Errors
/// When they may still be there: call again.
pub async fn withdraw(database: &Database, messages: &[MessageId]) -> Result<(), StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(WITHDRAW).await?;
    lease.client()?.execute(&statement, &[&MessageId::uuids(messages)]).await?;
    lease.give_back();
    Ok(())
}

/// A contact whose next message nobody is going to run.
#[derive(Debug)]
pub struct OrphanedContact {
    /// The conversation.
    pub conversation: ConversationId,
    /// The contact.
    pub subscriber: SubscriberId,
    /// The stored channel.
    pub channel: String,
}

/// Finds contacts whose first waiting message belongs to a process that is dead to `process`, those who wait longest first and none of `known`:
/// whoever cannot be served stands at the head otherwise, and nobody behind is found (ARC-42).
///
/// # Errors
/// When the database does not answer.
pub async fn orphaned(
    database: &Database,
    tenant: &TenantId,
    process: ProcessId,
    dead_secs: f64,
    known: &[Uuid],
    most: i64,
) -> Result<Vec<OrphanedContact>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(ORPHANED).await?;
    let values: &[&(dyn ToSql + Sync)] = &[&tenant.as_str(), &dead_secs, &most, &known, process.as_uuid()];
    let rows = lease.client()?.query(&statement, values).await?;
    lease.give_back();
    rows.iter()
        .map(|row| {
            Ok(OrphanedContact {
                conversation: ConversationId::from(row.try_get::<_, Uuid>("conversation_id")?),
                subscriber: SubscriberId::stored(row.try_get("subscriber_id")?),
                channel: row.try_get("channel")?,
            })
        })
        .collect()
}

/// A row of the inbox.
#[derive(Clone, Debug)]
pub struct WaitingMessage {
    /// Id of the message.
    pub id: MessageId,
    /// The process that holds its request.
    pub process: ProcessId,
    /// The words, or the marker of a media message.
    pub text: ContactText,
    /// What kind of file it was; its link died with its process.
    pub media: Option<MediaKind>,
    /// SHA-256 of the presented token.
    pub token_digest: Option<Redacted<String>>,
    /// The contact's offering field.
    pub offering: Option<String>,
    /// When it arrived.
    pub received_at: Timestamp,
}

/// The waiting messages of a contact in their order, at most 100.
///
/// # Errors
/// When the database does not answer.
pub async fn waiting(
    database: &Database,
    conversation: ConversationId,
) -> Result<Vec<WaitingMessage>, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(WAITING).await?;
    let rows = lease.client()?.query(&statement, &[conversation.as_uuid()]).await?;
    lease.give_back();
    rows.iter().map(waiting_of).collect()
}

fn waiting_of(row: &Row) -> Result<WaitingMessage, StoreError> {
    let kind: Option<&str> = row.try_get("media_kind")?;
    let media = kind.map(str::parse).transpose();
    Ok(WaitingMessage {
        id: MessageId::from(row.try_get::<_, Uuid>("message_id")?),
        process: ProcessId::from(row.try_get::<_, Uuid>("process_id")?),
        text: ContactText::new(row.try_get::<_, String>("text")?),
        media: media.map_err(|_| StoreError::Unexpected { what: "rs_inbox.media_kind" })?,
        token_digest: row.try_get::<_, Option<String>>("token_digest")?.map(Redacted::new),
        offering: row.try_get("offering")?,
        received_at: row.try_get("received_at")?,
    })
}

/// The first message of a turn that a dead process left, for [`join_repeats`].
#[derive(Debug)]
pub struct Repeated<'turn> {
    /// The conversation.
    pub conversation: ConversationId,
    /// The dead process.
    pub process: ProcessId,
    /// The words.
    pub text: &'turn ContactText,
    /// How the contact was proven.
    pub binding: Binding,
    /// When the message arrived.
    pub received_at: Timestamp,
}

/// Takes repetitions of a message out of the inbox: the turn that answers the message answers them too (DEC-30). Returns
/// how many.
///
/// # Errors
/// When they may still be there; they are then turns of their own.
pub async fn join_repeats(database: &Database, first: &Repeated<'_>) -> Result<u64, StoreError> {
    let lease = database.lease().await?;
    let statement = lease.prepared(JOIN_REPEATS).await?;
    let values: &[&(dyn ToSql + Sync)] = &[
        first.conversation.as_uuid(),
        first.process.as_uuid(),
        &first.text.expose(),
        &first.binding.as_str(),
        &first.received_at,
    ];
    let joined = lease.client()?.execute(&statement, values).await?;
    lease.give_back();
    Ok(joined)
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
