//! Performs what follows replies that are out, and puts the outcomes on the record: behind a response, behind a delivery, and
//! what a dead process has left (AFTER-2, PERF-4, PERF-5, ARC-41). The rows of `rs_actions` are the truth; this is memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::answer::Counted;
use crate::store::actions::{self, OpenActions};
use crate::store::attempts;
use crate::store::{Database, Pulse, StoreError};
use crate::telemetry::Seldom;
use crate::telemetry::crash_points::{self, Point};
use crate::tools::{COUNTERS, Entry, Performer, Progress, Stopped};

/// Pause while ManyChat may not be asked, or the database does not answer.
const NOT_NOW: Duration = Duration::from_secs(1);
/// Pause while an earlier turn's actions come first.
const BEHIND: Duration = Duration::from_millis(200);
/// Tries to put outcomes on the record, and the pause between two. After that whoever recovers this process does it.
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
    open: Arc<AtomicUsize>,
}

impl Acting {
    pub(super) fn new(performer: Performer, pulse: Pulse, io: Handle) -> Self {
        Self { database: performer.database.clone(), performer, pulse, io, open: Arc::default() }
    }

    /// Turns whose actions are being performed.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Performs the actions of one turn in order, off every path. A panic leaves them to whoever recovers this process.
    pub(super) fn perform_later(&self, open: OpenActions, path: Path) {
        let (acting, counted) = (self.clone(), Counted::new(&self.open));
        self.io.spawn(async move {
            crash_points::passed(Point::MarkedActionsOpen);
            acting.perform(&open, path).await;
            drop(counted);
        });
    }

    /// Performs what is left of the actions and ends them.
    pub(super) async fn perform(&self, open: &OpenActions, path: Path) {
        let mut progress = Progress::default();
        loop {
            match self.performer.perform(open, &mut progress).await {
                Ok(()) => break,
                Err(Stopped::Behind) if self.pulse.holds(open.process) => self.until_ahead(open).await,
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

    /// Waits for the actions of the contact's earlier turns, here or in another process (STAGE-6). What a dead process has
    /// left of them is its recoverer's; the statement itself says when nobody waits any longer.
    async fn until_ahead(&self, open: &OpenActions) {
        loop {
            tokio::time::sleep(BEHIND).await;
            let looking = attempts::is_behind(&self.database, open.turn);
            let behind =
                tokio::time::timeout(RECORD_LIMIT, looking).await.unwrap_or(Err(StoreError::InDoubt));
            if !behind.unwrap_or(false) || !self.pulse.holds(open.process) {
                return;
            }
        }
    }

    async fn record(&self, open: &OpenActions, groups: &[Vec<Entry>], path: Path) {
        let groups = serde_json::to_value(groups).unwrap_or_default();
        for _ in 0..RECORD_TRIES {
            let writing = actions::resolve(&self.database, open.turn, open.process, &groups);
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
