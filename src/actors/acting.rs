//! Performs what follows replies that are out, and puts the outcomes on the record: behind a response, behind a delivery, and
//! what a dead process has left (AFTER-2, PERF-4, PERF-5, ARC-41). The rows of `rs_actions` are the truth; this is memory.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use super::supervised::Restarts;
use crate::domain::{AgentRowId, ProcessId};
use crate::store::actions::{self, OpenActions};
use crate::store::{Database, Pulse, StoreError};
use crate::telemetry::Seldom;
use crate::telemetry::crash_points::{self, Point};
use crate::tools::{COUNTERS, Entry, Performer, Progress, Stopped};

/// Pause while ManyChat may not be asked, or the database does not answer.
const NOT_NOW: Duration = Duration::from_secs(1);
/// How often to look for actions of this process that nobody is at work on.
const LOOK: Duration = Duration::from_secs(5);
/// Longest such look.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
/// First pause while an earlier turn's actions come first; it doubles up to the longest.
const BEHIND: Duration = Duration::from_millis(200);
const MOST_BEHIND: Duration = Duration::from_secs(5);
/// Tries to put outcomes on the record, and the pause between two. After that the next look finds them.
const RECORD_TRIES: u32 = 240;
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Longest single try.
const RECORD_LIMIT: Duration = Duration::from_secs(10);

/// Which way the reply has gone, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// In the response.
    Inline,
    /// Through the outbox.
    Deferred,
}

/// Performs in the background; cheap to clone.
#[derive(Clone)]
pub(super) struct Acting {
    database: Database,
    performer: Performer,
    pulse: Pulse,
    io: Handle,
    at_work: AtWork,
}

/// Turns whose actions are being performed, each under the id of the process that holds them.
type AtWork = Arc<Mutex<HashSet<(AgentRowId, ProcessId)>>>;

/// One of them, as long as it lives.
struct Working {
    id: (AgentRowId, ProcessId),
    all: AtWork,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Acting {
    pub(super) fn new(performer: Performer, pulse: Pulse, io: Handle) -> Self {
        Self { database: performer.database.clone(), performer, pulse, io, at_work: Arc::default() }
    }

    /// Looks now and then for open actions of this process that it has not heard of: those whose opening the database has
    /// carried out and not answered (ARC-46).
    pub(super) fn watch(&self, restarts: &Restarts) {
        let (acting, restarts) = (self.clone(), restarts.clone());
        self.io.spawn(async move { restarts.supervise("open actions", || acting.look_again()).await });
    }

    async fn look_again(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let process = self.pulse.process();
            if !self.pulse.holds(process) {
                continue;
            }
            let known: Vec<AgentRowId> = self.lock().iter().map(|(row, _)| *row).collect();
            let looking = actions::forgotten(&self.database, process, &known);
            match tokio::time::timeout(LOOK_LIMIT, looking).await.unwrap_or(Err(StoreError::InDoubt)) {
                Ok(found) => found.into_iter().for_each(|open| self.perform_later(open, Path::Deferred)),
                Err(error) => {
                    static TOLD: Seldom = Seldom::new();
                    if TOLD.now() {
                        tracing::warn!(err = %error, "open actions not looked for");
                    }
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(AgentRowId, ProcessId)>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when somebody here is at work on them already.
    fn begin(&self, open: &OpenActions) -> Option<Working> {
        let id = (open.row, open.process);
        let begins = self.lock().insert(id);
        begins.then(|| Working { id, all: Arc::clone(&self.at_work) })
    }

    /// Turns whose actions are being performed.
    pub(super) fn open(&self) -> usize {
        self.lock().len()
    }

    /// Performs the actions of one turn in order, off every path. After a panic the next look finds them.
    pub(super) fn perform_later(&self, open: OpenActions, path: Path) {
        let Some(working) = self.begin(&open) else { return };
        let acting = self.clone();
        self.io.spawn(async move {
            crash_points::passed(Point::MarkedActionsOpen);
            acting.work_off(&open, path).await;
            drop(working);
        });
    }

    /// Performs what is left of the actions and ends them. Those of the contact's earlier turns come first, here or in another
    /// process (STAGE-6): what a dead process has left of them is its recoverer's, and nobody waits longer than the database
    /// says.
    async fn work_off(&self, open: &OpenActions, path: Path) {
        let (mut progress, mut behind, mut done) = (Progress::default(), BEHIND, 0);
        loop {
            let performed = self.performer.perform(open, &mut progress).await;
            if progress.groups.len() > done {
                (behind, done) = (BEHIND, progress.groups.len());
            }
            match performed {
                Ok(()) => break,
                Err(Stopped::Behind) if self.pulse.holds(open.process) => {
                    tokio::time::sleep(behind).await;
                    behind = (behind * 2).min(MOST_BEHIND);
                }
                Err(Stopped::NotNow) if self.pulse.holds(open.process) => {
                    static TOLD: Seldom = Seldom::new();
                    if TOLD.now() {
                        tracing::warn!(conversation = %open.conversation, "actions behind a reply wait");
                    }
                    tokio::time::sleep(NOT_NOW).await;
                }
                // Whoever has them now performs what is left.
                Err(_) => {
                    tracing::warn!(conversation = %open.conversation, "actions of a turn left to others");
                    return;
                }
            }
        }
        let groups = progress.groups;
        groups.iter().flatten().for_each(|entry| COUNTERS.entry(entry));
        self.record(open, &groups, path).await;
    }

    async fn record(&self, open: &OpenActions, groups: &[Vec<Entry>], path: Path) {
        let groups = serde_json::to_value(groups).unwrap_or_default();
        for _ in 0..RECORD_TRIES {
            let writing = actions::resolve(&self.database, open.row, open.process, &groups);
            let written = tokio::time::timeout(RECORD_LIMIT, writing).await;
            let error = match written.unwrap_or(Err(StoreError::InDoubt)) {
                Ok(_) => return,
                Err(error) => error,
            };
            let conversation = open.conversation;
            match path {
                Path::Inline => tracing::error!(%conversation, err = %error, "inline actions not recorded"),
                Path::Deferred => {
                    tracing::error!(%conversation, err = %error, "deferred actions not recorded")
                }
            }
            tokio::time::sleep(RECORD_PAUSE).await;
        }
    }
}
