//! Carries actions out: one attempt each, written down before its request and after it, the action first and what hangs on
//! it while each is accepted (08 sections 6, 9 and 10, ARC-41, ARC-46a).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::action::{Action, FlowOrigin};
use super::counters::COUNTERS;
use super::failure::{Failure, NOT_ATTEMPTED, cut, failure_of};
use super::marks::Marks;
use super::record::{Entry, Status};
use crate::domain::{ContactText, ConversationId, ProcessId, Stage, SubscriberId};
use crate::manychat::{self, Gate, Priority};
use crate::store::actions::OpenActions;
use crate::store::attempts::{self, Attempt, Begun, Finish, Under};
use crate::store::{Database, StoreError};
use crate::telemetry::crash_points::{self, Point};

/// How long writing an attempt down may take, before its request and after it.
const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// How long a write of a running turn waits for an earlier turn's, and how often it looks: a little longer than a request.
const BUSY_LIMIT: Duration = Duration::from_secs(13);
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Most requests of one action: itself and what hangs on it (PERF-3). An attempt's number is that of its action times this.
pub(super) const PER_ACTION: i32 = 8;
/// Why an action is not performed any more when a later turn has settled (ARC-41).
const ENDED_FIRST: &str = "process ended first";

/// Performs actions; cheap to clone.
#[derive(Clone)]
pub struct Performer {
    /// Where attempts are written down.
    pub database: Database,
    /// How they are made.
    pub manychat: manychat::Handle,
    /// Which fields only go forward.
    pub marks: Marks,
}

/// Why performing has stopped before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The actions are somebody else's now: leave them.
    Superseded,
    /// Nothing may be asked of ManyChat, or of the database, at the moment: go on in a while.
    NotNow,
    /// Actions of an earlier turn of the contact come first: go on when they are done (STAGE-6).
    Behind,
}

/// How far the actions behind a reply have come.
#[derive(Debug, Default)]
pub struct Progress {
    /// The outcomes so far, one list for each action.
    pub groups: Vec<Vec<Entry>>,
    /// What was done of the next action, when it stopped in between.
    partial: Vec<Entry>,
    /// The attempt that was perhaps written down, and whose request was not made.
    doubtful: Option<i32>,
    /// It was told that the outcome of an earlier attempt cannot be read.
    told_unreadable: bool,
}

impl Progress {
    /// The outcomes that a dead process has left of the action of this number; one that cannot be read is left out, and told
    /// once however often the action is gone on with.
    fn attempted(&mut self, place: &Place, open: &OpenActions, number: i32) -> Vec<Entry> {
        let of_this = open.attempted.iter().filter(|(attempt, _)| attempt / PER_ACTION == number);
        let (mut entries, mut unreadable) = (Vec::new(), false);
        for (_, entry) in of_this {
            match serde_json::from_value(entry.clone()) {
                Ok(entry) => entries.push(entry),
                Err(_) => unreadable = true,
            }
        }
        if unreadable && !std::mem::replace(&mut self.told_unreadable, true) {
            let (turn, conversation) = (place.under.as_uuid(), place.conversation);
            tracing::warn!(%turn, %conversation, "attempt of an action not readable");
        }
        entries
    }
}

/// Where and for whom an attempt is made.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) conversation: ConversationId,
    pub(super) subscriber: SubscriberId,
    pub(super) process: ProcessId,
    pub(super) under: Under,
    pub(super) once: Arc<[String]>,
    pub(super) marks: Marks,
}

/// What one attempt came to.
pub(super) enum Tried {
    Entry(Entry),
    /// Another turn has the opening, or has fired the event: nothing is sent or recorded (FN-OPEN-9, FN-EVT-4).
    Nothing,
    Stopped(Stopped, Entry),
}

impl Performer {
    /// Performs the actions behind a reply in order, one attempt each, a failure stopping nothing but what hangs on it
    /// (PERF-2, PERF-3). What a dead process has attempted keeps its outcome (ARC-41). `progress` is complete when this
    /// returns.
    ///
    /// # Errors
    /// Why it stopped; call again with the same progress after [`Stopped::NotNow`] and [`Stopped::Behind`].
    pub async fn perform(&self, open: &OpenActions, progress: &mut Progress) -> Result<(), Stopped> {
        let place = Place {
            conversation: open.conversation,
            subscriber: open.subscriber.clone(),
            process: open.process,
            under: if open.recovered { Under::Recovered(open.row) } else { Under::Actions(open.row) },
            once: Arc::default(),
            marks: self.marks.clone(),
        };
        let actions = open.actions.expose().as_array().map_or(&[][..], Vec::as_slice);
        for (index, value) in actions.iter().enumerate().skip(progress.groups.len()) {
            let number = i32::try_from(index).unwrap_or(i32::MAX / PER_ACTION);
            let group = match serde_json::from_value::<Action>(value.clone()) {
                Ok(action) => self.staged(&place, open, number, &action, progress).await?,
                Err(_) => vec![reported(&place, unreadable(value))],
            };
            progress.groups.push(group);
        }
        Ok(())
    }

    async fn staged(
        &self,
        place: &Place,
        open: &OpenActions,
        number: i32,
        action: &Action,
        progress: &mut Progress,
    ) -> Result<Vec<Entry>, Stopped> {
        let mut entries = std::mem::take(&mut progress.partial);
        if entries.is_empty() {
            entries = progress.attempted(place, open, number);
        }
        let chain = std::iter::successors(Some(action), |action| action.follow_on());
        for (depth, action) in (0..PER_ACTION).zip(chain) {
            if entries.len() > usize::try_from(depth).unwrap_or(0) {
                continue;
            }
            if entries.last().is_some_and(|last| last.status != Status::Performed) {
                break;
            }
            if open.outrun {
                entries.push(reported(place, failed(action, ENDED_FIRST)));
                break;
            }
            let number = number * PER_ACTION + depth;
            let attempt = Attempt {
                again: progress.doubtful.take() == Some(number),
                ..attempt_of(place, number, action)
            };
            match self.once(place, &attempt, action, Priority::Background).await {
                Tried::Entry(entry) => entries.push(entry),
                Tried::Nothing => break,
                Tried::Stopped(why, _) => {
                    progress.partial = entries;
                    progress.doubtful = (attempt.again || why == Stopped::NotNow).then_some(number);
                    return Err(why);
                }
            }
        }
        Ok(entries)
    }

    /// The action and what hangs on it, while the turn's model runs (FLOW-2).
    pub(super) async fn send(&self, place: &Place, first: i32, action: &Action) -> Vec<Entry> {
        let mut entries = Vec::new();
        let chain = std::iter::successors(Some(action), |action| action.follow_on());
        for (depth, action) in (0..PER_ACTION).zip(chain) {
            match self.in_turn(place, first + depth, action).await {
                Tried::Entry(entry) => entries.push(entry),
                Tried::Stopped(_, entry) => {
                    report(place, &entry);
                    entries.push(entry);
                }
                Tried::Nothing => break,
            }
            if entries.last().is_none_or(|last| last.status != Status::Performed) {
                break;
            }
        }
        entries
    }

    /// One attempt while the model runs. It waits for a write of the same field by an earlier turn (FN-STAGE-5).
    async fn in_turn(&self, place: &Place, number: i32, action: &Action) -> Tried {
        let attempt = attempt_of(place, number, action);
        let until = Instant::now() + BUSY_LIMIT;
        loop {
            match self.once(place, &attempt, action, Priority::InRequest).await {
                Tried::Stopped(Stopped::Behind, _) if Instant::now() < until => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                tried => return tried,
            }
        }
    }

    /// One attempt of one action.
    pub(super) async fn once(
        &self,
        place: &Place,
        attempt: &Attempt,
        action: &Action,
        priority: Priority,
    ) -> Tried {
        let (begun, result) = match request_of(action) {
            Some(request) => match self.kept_back(place, attempt).await {
                Some(kept_back) => (Some(kept_back), Ok(())),
                None => self.ask(place, attempt, action, request, priority).await,
            },
            None => self.write_here(attempt, action).await,
        };
        match begun {
            Some(Ok(Begun::Yes)) => self.finished(place, attempt, action, result).await,
            Some(Ok(begun)) => not_begun(place, begun, action),
            Some(Err(error)) => {
                let entry = failed(action, "not attempted: the database did not answer");
                tracing::warn!(conversation = %place.conversation, err = %error, "attempt of an action not recorded");
                Tried::Stopped(Stopped::NotNow, entry)
            }
            // Its turn at ManyChat never came.
            None => {
                let error = result.err().map_or_else(|| NOT_ATTEMPTED.to_owned(), |failure| failure.text);
                let entry = failed(action, &error);
                Tried::Stopped(Stopped::NotNow, entry)
            }
        }
    }

    /// What keeps an attempt back that others have a say in. Asked before it joins ManyChat's queue: what has to wait must
    /// take no place in the rate that all processes share (ARC-48).
    async fn kept_back(&self, place: &Place, attempt: &Attempt) -> Option<Result<Begun, StoreError>> {
        if place.under.is_turn() && !attempt.concerns_others() {
            return None;
        }
        let looking = attempts::kept_back(&self.database, attempt);
        let looked = tokio::time::timeout(WRITE_LIMIT, looking).await;
        looked.unwrap_or(Err(StoreError::InDoubt)).transpose()
    }

    /// Asks ManyChat, and writes the attempt down when its turn there has come.
    async fn ask(
        &self,
        place: &Place,
        attempt: &Attempt,
        action: &Action,
        request: manychat::Action,
        priority: Priority,
    ) -> (Option<Result<Begun, StoreError>>, Result<(), Failure>) {
        let told = Arc::new(Mutex::new(None));
        let gate = Gate::new(begin(self.database.clone(), attempt.clone(), Arc::clone(&told)));
        let asked = Instant::now();
        let result = self.manychat.perform_through(&place.subscriber, request, priority, gate).await;
        let begun = told.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !place.under.is_turn() && matches!(begun, Some(Ok(Begun::Yes))) {
            COUNTERS.took(action.tool(), asked.elapsed());
        }
        if result.is_ok() && matches!(action, Action::SendFlow { .. }) && place.under.is_turn() {
            crash_points::passed(Point::FlowAccepted);
        }
        (begun, result.map_err(|error| failure_of(&error, action, &place.subscriber)))
    }

    /// Writes the outcome down and says what went wrong.
    async fn finished(
        &self,
        place: &Place,
        attempt: &Attempt,
        action: &Action,
        result: Result<(), Failure>,
    ) -> Tried {
        let error = result.err().map(|failure| failure.text);
        let finish = Finish {
            error: error.as_deref(),
            link_sent: sets_link_sent(action),
            offering: offering_of(action),
        };
        let writing = attempts::finish(&self.database, attempt, &finish);
        let written = tokio::time::timeout(WRITE_LIMIT, writing).await.unwrap_or(Err(StoreError::InDoubt));
        if let Err(error) = written {
            tracing::warn!(conversation = %place.conversation, err = %error, "attempt of an action not finished");
        } else if error.is_none() && place.under.is_turn() {
            crash_points::passed_if(matches!(action, Action::SendFlow { .. }), Point::FlowRecorded);
        }
        let entry = match &error {
            Some(text) => failed(action, text),
            None => action.entry(Status::Performed, None),
        };
        report(place, &entry);
        Tried::Entry(entry)
    }

    /// An action that is a row of ours and no request (NTOOL-4).
    async fn write_here(
        &self,
        attempt: &Attempt,
        action: &Action,
    ) -> (Option<Result<Begun, StoreError>>, Result<(), Failure>) {
        let begun = attempts::begin(&self.database, attempt).await;
        let (Ok(Begun::Yes), Action::ScheduleNudge { minutes, .. }) = (&begun, action) else {
            return (Some(begun), Ok(()));
        };
        let written = attempts::schedule_nudge(&self.database, attempt.conversation, *minutes).await;
        let result = written.map_err(|error| Failure { text: cut(&error.to_string()) });
        (Some(begun), result)
    }
}

pub(super) fn attempt_of(place: &Place, number: i32, action: &Action) -> Attempt {
    Attempt {
        under: place.under,
        action: number,
        conversation: place.conversation,
        process: place.process,
        entry: attempted_form(place, action),
        claims_opening: is_opening(action),
        again: false,
        values_above: place.marks.values_above(action),
        once: match action {
            Action::SendFlow { id, .. } => place.once.contains(id),
            Action::SendEvent { .. } => true,
            _ => false,
        },
    }
}

/// Why the request was not made. What fails for good without one is told as what fails with one; of what has stopped the
/// caller knows whether it is tried again.
fn not_begun(place: &Place, begun: Begun, action: &Action) -> Tried {
    let stopped = |why, error| Tried::Stopped(why, failed(action, error));
    let ended = |error| Tried::Entry(reported(place, failed(action, error)));
    match begun {
        Begun::OpeningTaken | Begun::Fired => Tried::Nothing,
        Begun::Superseded => stopped(Stopped::Superseded, "not attempted: the turn was superseded"),
        Begun::Behind | Begun::Busy => {
            stopped(Stopped::Behind, "not attempted: an earlier write is under way")
        }
        Begun::Outrun => ended("another turn went further"),
        Begun::EndedFirst => ended(ENDED_FIRST),
        Begun::Taken => ended("not attempted: another turn sends it"),
        Begun::Before | Begun::Yes => ended("outcome unknown: it was attempted before"),
    }
}

/// What became of writing an attempt down, for whoever asked for the request behind it.
type BegunCell = Arc<Mutex<Option<Result<Begun, StoreError>>>>;

/// Writes the attempt down when its turn at ManyChat has come. In doubt the request is not made.
async fn begin(database: Database, attempt: Attempt, told: BegunCell) -> bool {
    let writing = attempts::begin(&database, &attempt);
    let begun = tokio::time::timeout(WRITE_LIMIT, writing).await.unwrap_or(Err(StoreError::InDoubt));
    let goes_on = matches!(begun, Ok(Begun::Yes));
    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
    crash_points::passed_if(goes_on, Point::AttemptWritten);
    goes_on
}

/// What ManyChat is asked for; `None` for what is written here (PERF-1).
fn request_of(action: &Action) -> Option<manychat::Action> {
    Some(match action {
        Action::SendFlow { flow_ns, .. } | Action::SendEvent { flow_ns, .. } => {
            manychat::Action::SendFlow { flow_ns: flow_ns.clone() }
        }
        Action::AddTag { tag, .. } => manychat::Action::AddTag { tag: tag.clone() },
        Action::RemoveTag { tag, .. } => manychat::Action::RemoveTag { tag: tag.clone() },
        Action::SetField { field, value, .. } => {
            manychat::Action::SetField { field: field.clone(), value: ContactText::new(value.clone()) }
        }
        Action::WriteNote { field, text, .. } => {
            manychat::Action::SetField { field: field.clone(), value: text.clone() }
        }
        Action::ScheduleNudge { .. } => return None,
    })
}

const fn is_opening(action: &Action) -> bool {
    matches!(action, Action::SendFlow { origin: Some(FlowOrigin::Opening), .. })
}

/// Only the service can produce that value (PERF-8).
fn sets_link_sent(action: &Action) -> bool {
    matches!(action, Action::SetField { value, .. } if value == Stage::LinkSent.as_str())
}

fn offering_of(action: &Action) -> Option<&str> {
    match action {
        Action::SetField { value, offering: true, .. } => Some(value),
        _ => None,
    }
}

pub(super) fn failed(action: &Action, error: &str) -> Entry {
    action.entry(Status::Failed, Some(cut(error)))
}

/// What an attempt keeps of an action: its entry without a status. While the turn runs nothing else knows what is to follow
/// it; behind a reply the open actions do.
fn attempted_form(place: &Place, action: &Action) -> Value {
    let mut form = serde_json::to_value(action.entry(Status::Staged, None)).unwrap_or_default();
    let follow_on =
        action.follow_on().filter(|_| matches!(place.under, Under::Turn(_) | Under::Inherited(_)));
    if let Some(entry) = form.as_object_mut() {
        entry.remove("status");
        if let Some(follow_on) = follow_on.and_then(|follow_on| serde_json::to_value(follow_on).ok()) {
            entry.insert("followOn".to_owned(), follow_on);
        }
    }
    form
}

/// An action of an outbox row that this version cannot read.
pub(super) fn unreadable(value: &Value) -> Entry {
    let word = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    Entry {
        tool: word("tool"),
        id: word("id"),
        value: None,
        length: None,
        status: Status::Failed,
        error: Some("this version cannot read the action".to_owned()),
        origin: None,
        contact_asked: false,
    }
}

fn reported(place: &Place, entry: Entry) -> Entry {
    report(place, &entry);
    entry
}

/// The lines about an attempt (08 section 14).
pub(super) fn report(place: &Place, entry: &Entry) {
    let (conversation, id) = (place.conversation, entry.id.as_str());
    let opening = entry.origin == Some(FlowOrigin::Opening);
    match &entry.error {
        None if opening => tracing::info!(%conversation, flow = id, sent = true, "opening flow sent"),
        None => {}
        Some(error) if opening => {
            tracing::error!(%conversation, flow = id, err = error.as_str(), "opening flow not sent");
        }
        Some(error) => {
            tracing::warn!(%conversation, tool = entry.tool.as_str(), id, error = error.as_str(), "action failed");
        }
    }
}

#[cfg(test)]
#[path = "perform_tests.rs"]
pub(super) mod tests;
