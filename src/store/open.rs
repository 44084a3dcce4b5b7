//! Open, the first flight of a turn: take the lane, record and count, read (ARC-30). One transaction, sent together: the
//! first statement waits for the contact's lock, the second does everything else in a snapshot taken after that wait
//! (ARC-72). A third reads what only some tenants' rules ask for.

mod statements;

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use rust_decimal::Decimal;
use serde::Deserialize;
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

pub(super) use statements::{EARLIER, FIND, KEEP, OPEN, OPEN_WAITING};

use super::acted::{Acted, acted_of};
use super::flight::behind_lock;
use super::pool::Lease;
use super::statements::{BEGIN, COMMIT};
use super::{Database, StoreError};
use crate::domain::{
    Binding, ContactText, ConversationId, Fence, MediaKind, MessageId, ProcessId, Role, SubscriberId,
    TenantId, TurnId,
};
use crate::telemetry::crash_points::{self, Point, Sabotage};

/// How many turns of a contact the model reads at most, the messages being answered included (HISTW-1).
pub(super) const HISTORY_TURNS: usize = 10;
/// Most earlier turns it can read.
pub(super) const MOST_EARLIER: i64 = 9;

/// One message to record.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Id its row gets.
    pub id: MessageId,
    /// The words, or the marker of a media message (WRITE-1).
    pub text: ContactText,
    /// What kind of file it was.
    pub media: Option<MediaKind>,
    /// The contact's offering field as the request filled it in; kept while the message waits.
    pub offering: Option<String>,
    /// When it arrived.
    pub received_at: Timestamp,
    /// True when it stands in the inbox (ARC-45a).
    pub stored: bool,
}

/// Everything Open needs to know; times are business time (ARC-50).
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// The contact.
    pub subscriber: SubscriberId,
    /// Channel stored when the conversation is created.
    pub channel: String,
    /// SHA-256 of the presented token in lower-case hex; `None` when none was presented.
    pub token_digest: Option<String>,
    /// SHA-256 of a fresh token in lower-case hex, stored when a token is due (TOK-20); `None` issues none.
    pub fresh_digest: Option<String>,
    /// `CONTACT_TOKENS_ENFORCED`.
    pub tokens_enforced: bool,
    /// The messages this turn answers, in order; at least one.
    pub messages: Vec<NewMessage>,
    /// Whether the guards will run, and so the hourly counter counts; false for a scripted opening (OPEN-2).
    pub guarded: bool,
    /// Now.
    pub now: Timestamp,
    /// The offering the last message names, if the tenant knows it; a bound turn stores it (TURN-4, FN-OFF-6).
    pub offering: Option<String>,
    /// The configuration that summaries of this tenant are made by; `None`: nothing of earlier turns' actions is read.
    pub acted_by: Option<String>,
    /// Whether a person can take the contact over (`rules.takeover`): without, open handoffs are not read.
    pub pausable: bool,
    /// When the first of the messages arrived.
    pub received_at: Timestamp,
    /// When the last of them arrived: the binding is judged as of then (DEC-24).
    pub last_received_at: Timestamp,
    /// `rules.idleResetHours`.
    pub idle_reset_hours: u32,
    /// `rules.historyDays`.
    pub history_days: u32,
    /// This process.
    pub process: ProcessId,
    /// This turn.
    pub turn: TurnId,
    /// How long the lane may be held: abort + deadline + 15 s (ARC-45).
    pub lane_secs: f64,
    /// After how long without a beat a process is dead (ARC-44).
    pub dead_secs: f64,
    /// The same for taking its lane: never, as long as this process may call nobody dead.
    pub takeover_secs: f64,
}

/// What Open found.
#[derive(Debug)]
pub enum Opened {
    /// The turn runs.
    Started(Box<OpenTurn>),
    /// It is not the turn of these messages: the lane is held, or somebody is ahead. Nothing was recorded.
    Waiting(Waits),
}

/// Messages that have to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The contact's conversation; `None` when the contact was erased while the messages waited (DEC-13).
    pub conversation: Option<ConversationId>,
    /// Those of the messages that stand in the inbox now. Any other was there and has been taken over or erased.
    pub kept: Vec<MessageId>,
    /// A turn that a dead process owes the contact: it runs before them (DEC-35).
    pub owed_first: Option<TurnId>,
}

/// A turn that may run.
#[derive(Debug)]
pub struct OpenTurn {
    /// The contact's conversation.
    pub conversation: ConversationId,
    /// How the request proved its contact.
    pub binding: Binding,
    /// The lane's fence; `None` for a turn beside the lane.
    pub fence: Option<Fence>,
    /// How many of the messages the turn answers, from the first on; the others wait behind another process's.
    pub taken: usize,
    /// `turn_count` after counting; `None` when the turn is not counted (CAP-4).
    pub turn_count: Option<i32>,
    /// Messages of this contact in this UTC hour after counting; `None` when guards do not run.
    pub hourly_count: Option<i32>,
    /// Tokens spent today by the tenant, unconfirmed turns included.
    pub spent_tokens: i64,
    /// US dollars spent today by the tenant, unconfirmed turns included.
    pub spent_usd: Decimal,
    /// Turns of the tenant that are under way, in any process, and began before this one (02 section 14).
    pub running_before: i64,
    /// True when an earlier reply to the contact is still on its way (LANE-7).
    pub reply_queued: bool,
    /// The contact's open handoff (DEC-35); `None` when there is none, the agent has gone on since (DEC-9), or it was not
    /// asked for.
    pub handoff: Option<OpenHandoff>,
    /// The outbox row behind the token that this flight has issued; `None` when none was due. Write the token whose
    /// digest the request carried to ManyChat now (TOK-23).
    pub token_row: Option<Uuid>,
    /// Earlier turns, oldest first; empty when the turn may not read them.
    pub history: Vec<HistoryRow>,
    /// The contact's stored offering, the request's included (FN-OFF-4).
    pub offering: Option<String>,
    /// What was stored before the request of this turn (FN-OFF-7). In a second run the two are the same: nobody knows any more
    /// what the first has found.
    pub offering_before: Option<String>,
    /// What earlier turns have done; `None` when it was not asked for.
    pub acted: Option<Acted>,
    /// What a first run of this turn has attempted, as entries of the record; empty in a first run (ARC-46).
    pub attempted: Vec<serde_json::Value>,
}

/// A handoff that nobody has closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHandoff {
    /// Time since the latest of the contact's open handoffs, which was the agent's last word, by the database's clock
    /// (DEC-9, ARC-50).
    pub quiet: Duration,
    /// True while the tag that calls a person has not been added and still may be.
    pub tag_pending: bool,
    /// Place of the latest of them: whoever ends the pause closes no call that came after it.
    pub called_seq: i64,
}

/// One earlier turn.
#[derive(Clone, Debug, Deserialize)]
pub struct HistoryRow {
    /// Whose words.
    pub role: Role,
    /// The stored text.
    #[serde(deserialize_with = "contact_text")]
    pub text: ContactText,
    /// Action records of an agent turn.
    pub actions: Option<serde_json::Value>,
}

fn contact_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<ContactText, D::Error> {
    String::deserialize(from).map(ContactText::new)
}

/// Runs the flight. It is committed when this returns [`Opened::Started`].
///
/// # Errors
/// [`StoreError::InDoubt`] when the connection was lost under way; otherwise nothing was recorded.
pub async fn open(database: &Database, request: &OpenRequest) -> Result<Opened, StoreError> {
    match open_once(database, request).await {
        Err(error) if error.is_deadlock() => open_once(database, request).await,
        opened => opened,
    }
}

async fn open_once(database: &Database, request: &OpenRequest) -> Result<Opened, StoreError> {
    let lease = database.lease().await?;
    let values = Values::of(request);
    let (opened, earlier) = fly(&lease, &values).await?;
    let opened = match opened {
        Some(row) if row.try_get("started")? => {
            crash_points::passed(Point::AfterOpen);
            Opened::Started(Box::new(started(&row, earlier.as_ref())?))
        }
        Some(row) => Opened::Waiting(wait(&lease, &values, &row).await?),
        None => Opened::Waiting(Waits { conversation: None, kept: Vec::new(), owed_first: None }),
    };
    lease.give_back();
    Ok(opened)
}

/// It is not the turn of these messages: those that have no row in the inbox get one, in a flight of their own that no
/// other turn pays for. Until it is committed nothing of them is recorded, so nobody but the caller knows of them.
async fn wait(lease: &Lease, values: &Values<'_>, opened: &Row) -> Result<Waits, StoreError> {
    let conversation = ConversationId::from(opened.try_get::<_, Uuid>("id")?);
    let owed_first = opened.try_get::<_, Option<Uuid>>("owed_first")?.map(TurnId::from);
    let binding = parse_binding(opened)?.as_str();
    let row = behind_lock(lease, conversation, KEEP, &values.of_keep(&conversation, &binding)).await?;
    let row = row.ok_or(StoreError::Unexpected { what: "rs_inbox" })?;
    let kept = row.try_get::<_, Vec<Uuid>>("waiting")?.into_iter().map(MessageId::from).collect();
    Ok(Waits { conversation: Some(conversation), kept, owed_first })
}

/// What the statements are given, where the request itself does not hold it as they want it.
struct Values<'req> {
    request: &'req OpenRequest,
    tenant: &'req str,
    subscriber: &'req str,
    takeover_secs: f64,
    all_stored: bool,
    gap_before: Timestamp,
    since: Timestamp,
    window: Timestamp,
    day: jiff::civil::Date,
    ids: Vec<Uuid>,
    texts: Vec<&'req str>,
    kinds: Vec<Option<&'static str>>,
    offerings: Vec<Option<&'req str>>,
    received: Vec<Timestamp>,
    stored: Vec<Uuid>,
}

impl<'req> Values<'req> {
    fn of(request: &'req OpenRequest) -> Self {
        let takeover_secs =
            if crash_points::is_sabotaged(Sabotage::Lane) { 0.0 } else { request.takeover_secs };
        Self {
            request,
            tenant: request.tenant.as_str(),
            subscriber: request.subscriber.expose(),
            takeover_secs,
            all_stored: request.messages.iter().all(|one| one.stored),
            gap_before: back(request.now, i64::from(request.idle_reset_hours)),
            since: back(request.now, i64::from(request.history_days).saturating_mul(24)),
            window: hour_of(request.now),
            day: day_of(request.now),
            ids: request.messages.iter().map(|message| *message.id.as_uuid()).collect(),
            texts: request.messages.iter().map(|message| message.text.expose()).collect(),
            kinds: request.messages.iter().map(|message| message.media.map(MediaKind::as_str)).collect(),
            offerings: request.messages.iter().map(|message| message.offering.as_deref()).collect(),
            received: request.messages.iter().map(|message| message.received_at).collect(),
            stored: request.messages.iter().filter(|one| one.stored).map(|one| *one.id.as_uuid()).collect(),
        }
    }

    /// Whether none of the messages stands in the inbox.
    fn is_new(&self) -> bool {
        self.stored.is_empty()
    }

    /// The parameters of [`FIND`].
    fn of_find(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.tenant, &self.subscriber, &self.request.channel, &self.request.now, &self.all_stored]
    }

    /// The parameters of [`OPEN`], and one more of [`OPEN_WAITING`].
    fn of_open(&self) -> Vec<&(dyn ToSql + Sync)> {
        let request = self.request;
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![
            &self.tenant,
            &self.subscriber,
            &request.token_digest,
            &request.tokens_enforced,
            request.turn.as_uuid(),
            &self.gap_before,
            &request.now,
            &self.ids,
            &self.texts,
            &self.kinds,
            request.process.as_uuid(),
            &self.window,
            &request.guarded,
            &request.received_at,
            &request.dead_secs,
            &request.fresh_digest,
            &request.last_received_at,
            &request.offering,
            &request.lane_secs,
            &self.takeover_secs,
            &self.since,
            &MOST_EARLIER,
            &self.day,
        ];
        if !self.is_new() {
            values.push(&self.stored);
        }
        values
    }

    /// The parameters of [`EARLIER`].
    fn of_earlier(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.tenant, &self.subscriber, &self.request.acted_by]
    }

    /// The parameters of [`KEEP`].
    fn of_keep<'val>(
        &'val self,
        conversation: &'val ConversationId,
        binding: &'val &'static str,
    ) -> [&'val (dyn ToSql + Sync); 12] {
        let request = self.request;
        [
            conversation.as_uuid(),
            request.turn.as_uuid(),
            &self.stored,
            request.process.as_uuid(),
            &request.token_digest,
            binding,
            &self.ids,
            &self.texts,
            &self.kinds,
            &self.offerings,
            &self.received,
            &request.tokens_enforced,
        ]
    }
}

/// `at` minus whole hours; the earliest representable time when that is out of range.
pub(super) fn back(at: Timestamp, hours: i64) -> Timestamp {
    at.checked_sub(jiff::SignedDuration::from_hours(hours)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Start of the UTC clock hour (02/RATE-1).
fn hour_of(at: Timestamp) -> Timestamp {
    let seconds = at.as_second();
    Timestamp::from_second(seconds - seconds.rem_euclid(3600)).unwrap_or(at)
}

/// The UTC day (BUD-1).
pub(super) fn day_of(at: Timestamp) -> jiff::civil::Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The flight's statements as this connection has prepared them.
struct Prepared {
    begin: Statement,
    find: Statement,
    open: Statement,
    /// `None` where the tenant's rules ask for nothing of it.
    earlier: Option<Statement>,
    commit: Statement,
}

impl Prepared {
    async fn on(lease: &Lease, values: &Values<'_>) -> Result<Self, StoreError> {
        let looks_back = values.request.acted_by.is_some() || values.request.pausable;
        Ok(Self {
            begin: lease.prepared(BEGIN).await?,
            find: lease.prepared(FIND).await?,
            open: lease.prepared(if values.is_new() { OPEN } else { OPEN_WAITING }).await?,
            earlier: if looks_back { Some(lease.prepared(EARLIER).await?) } else { None },
            commit: lease.prepared(COMMIT).await?,
        })
    }
}

/// Sends the whole flight at once and then looks at every result (ARC-30): what [`OPEN`] and [`EARLIER`] found.
async fn fly(lease: &Lease, values: &Values<'_>) -> Result<(Option<Row>, Option<Row>), StoreError> {
    let Prepared { begin, find, open, earlier, commit } = Prepared::on(lease, values).await?;
    let client = lease.client()?;
    let (of_find, of_open, of_earlier) = (values.of_find(), values.of_open(), values.of_earlier());
    let look_back = async {
        match &earlier {
            Some(earlier) => client.query_opt(earlier, &of_earlier).await,
            None => Ok(None),
        }
    };
    let (begun, found, opened, looked_back, committed) = tokio::join!(
        lease.begin(&begin),
        client.execute(&find, &of_find),
        client.query_opt(&open, &of_open),
        look_back,
        client.execute(&commit, &[]),
    );
    begun?;
    found?;
    let rows = (opened?, looked_back?);
    committed.map(|_| rows)
}

/// The column `history` of a row; empty when the turn may not read it.
pub(super) fn history_of(row: &Row) -> Result<Vec<HistoryRow>, StoreError> {
    let rows: Result<Option<Json<Vec<HistoryRow>>>, _> = row.try_get("history");
    let rows = rows.map_err(|_| StoreError::Unexpected { what: "turns" })?;
    Ok(rows.map(|Json(rows)| rows).unwrap_or_default())
}

/// The column `binding` of a row.
pub(super) fn parse_binding(recorded: &Row) -> Result<Binding, StoreError> {
    let word: &str = recorded.try_get("binding")?;
    word.parse().map_err(|_| StoreError::Unexpected { what: "binding" })
}

fn started(opened: &Row, earlier: Option<&Row>) -> Result<OpenTurn, StoreError> {
    let fence: Option<i64> = opened.try_get("fence")?;
    let taken = usize::try_from(opened.try_get::<_, i32>("taken")?).unwrap_or(0);
    let mut history = history_of(opened)?;
    // The messages being answered count among the turns of the window (HISTW-1, DEC-33).
    history.drain(..(history.len() + taken).saturating_sub(HISTORY_TURNS).min(history.len()));
    Ok(OpenTurn {
        taken,
        conversation: ConversationId::from(opened.try_get::<_, Uuid>("id")?),
        binding: parse_binding(opened)?,
        fence: fence.map(Fence::new),
        turn_count: opened.try_get("turn_count")?,
        hourly_count: opened.try_get("hourly_count")?,
        spent_tokens: opened.try_get("tokens")?,
        spent_usd: opened.try_get("cost_usd")?,
        running_before: opened.try_get("running_before")?,
        reply_queued: opened.try_get("reply_queued")?,
        handoff: earlier.map(open_handoff).transpose()?.flatten(),
        token_row: opened.try_get("token_row")?,
        history,
        offering: opened.try_get("offering")?,
        offering_before: opened.try_get("offering_before")?,
        acted: earlier.map(acted_of).transpose()?.flatten(),
        attempted: Vec::new(),
    })
}

pub(super) fn open_handoff(read: &Row) -> Result<Option<OpenHandoff>, StoreError> {
    let quiet_secs: Option<f64> = read.try_get("quiet_secs")?;
    let (tag_pending, called_seq) = (read.try_get("tag_pending")?, read.try_get("called_seq")?);
    Ok(quiet_secs.map(|seconds| {
        let quiet = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        OpenHandoff { quiet, tag_pending, called_seq }
    }))
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "history_tests.rs"]
mod history_tests;

#[cfg(test)]
mod keep_tests;
