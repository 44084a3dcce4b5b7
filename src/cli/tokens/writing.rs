//! The loop of a backfill: a few contacts at a time, each through the normal issue, at the pace that all processes of
//! the tenant share (BF-3, ARC-48, GAP-DL-17).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::progress::Progress;
use crate::config::Settings;
use crate::domain::{Clock, SubscriberId, SystemClock};
use crate::manychat::{self, Call, Command, DeliveryClient, ManyChatError, Names};
use crate::store::backfill::{self, Candidate, Scope};
use crate::store::rate::{self, RateLimit};
use crate::store::{Database, tokens};
use crate::turn::ContactToken;

/// Contacts at the same time. The rate allows ten writes a second and one takes a few hundred milliseconds; each
/// makes a call of the running service wait a tenth of a second at most.
const AT_ONCE: usize = 4;
/// Contacts read at a time.
const PAGE: i64 = 200;
/// Writes that fail one after the other, for a reason that is wrong for all of them, before the command stops.
const MOST_FAILURES: u32 = 20;

/// What is needed to issue and write.
pub(super) struct Backfill {
    database: Database,
    scope: Scope,
    client: Arc<dyn DeliveryClient>,
    field: String,
    limit: RateLimit,
    process_dead: Duration,
}

/// What has been done.
#[derive(Default)]
pub(super) struct Tally {
    /// Tokens that ManyChat has.
    pub(super) written: u64,
    /// Tokens that the outbox worker will write.
    pub(super) queued: u64,
    /// Failed writes by kind.
    pub(super) failures: BTreeMap<String, u64>,
    hopeless_in_a_row: u32,
}

/// Why the loop ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// Nobody in scope is left without a token.
    Complete,
    /// The operator stopped it.
    Interrupted,
    /// ManyChat refuses the key, or does not answer at all.
    ManyChatDown,
}

/// A write that did not succeed.
struct Failure {
    kind: String,
    /// The next contact's would fail for the same reason.
    hopeless: bool,
}

/// Waits for `wanted`, and lets what is under way go on meanwhile: `wanted` may need what that holds, such as one of the few
/// connections (BF-1), and would wait for ever.
async fn beside<T, D>(
    wanted: impl Future<Output = T>,
    under_way: &mut FuturesUnordered<impl Future<Output = D>>,
    mut ended: impl FnMut(D),
) -> T {
    tokio::pin!(wanted);
    loop {
        tokio::select! {
            found = &mut wanted => return found,
            Some(done) = under_way.next() => ended(done),
        }
    }
}

/// What became of one contact.
enum Done {
    Written,
    Queued(Failure),
    /// It has got a token meanwhile; counted nowhere (CLI-82).
    Skipped,
}

impl Backfill {
    pub(super) fn new(database: Database, settings: &Settings, scope: Scope) -> anyhow::Result<Self> {
        Ok(Self {
            database,
            scope,
            client: manychat::client(&settings.manychat)?,
            field: Names::of(&settings.manychat).token_field,
            limit: RateLimit::per_second(settings.manychat.calls_per_second),
            process_dead: settings.process_dead,
        })
    }

    /// Works until nobody is left, the operator interrupts, or ManyChat lets nobody through. What was begun is finished
    /// in any case, so that `tally` is whole.
    pub(super) async fn run(&self, total: i64, tally: &mut Tally) -> anyhow::Result<Ending> {
        let interrupted = watch_for_interrupt();
        let mut progress = Progress::new(total);
        let mut contacts = Contacts { backfill: self, page: VecDeque::new(), last: None };
        let mut under_way = FuturesUnordered::new();
        let mut ending = None;
        loop {
            while ending.is_none() && under_way.len() < AT_ONCE {
                ending = if interrupted.load(Ordering::Acquire) {
                    Some(Ending::Interrupted)
                } else if tally.hopeless_in_a_row >= MOST_FAILURES {
                    Some(Ending::ManyChatDown)
                } else {
                    let mut ended = Vec::new();
                    let contact = beside(contacts.next(), &mut under_way, |done| ended.push(done)).await?;
                    for done in ended {
                        tally.add(done?);
                        progress.step();
                    }
                    match contact {
                        Some(contact) => {
                            under_way.push(self.one(contact));
                            None
                        }
                        None => Some(Ending::Complete),
                    }
                };
            }
            let Some(done) = under_way.next().await else { break };
            tally.add(done?);
            progress.step();
        }
        Ok(ending.unwrap_or(Ending::Complete))
    }

    /// Takes its place in the rate first, so that the write follows the issue at once and ends long before the worker
    /// would replace the token (TOK-25).
    async fn one(&self, contact: Candidate) -> anyhow::Result<Done> {
        let place = rate::reserve(&self.database, &self.scope.tenant, self.limit, self.process_dead).await?;
        tokio::time::sleep(place.wait).await;
        let token = ContactToken::fresh()?;
        let now = SystemClock.now();
        let Some(row) = backfill::issue(&self.database, contact.conversation, &token.digest, now).await?
        else {
            return Ok(Done::Skipped);
        };
        let command = Command::WriteToken { field: self.field.clone(), token: token.text };
        match self.client.call(Call { contact: contact.subscriber, command }).await {
            Ok(_) => {
                tokens::written(&self.database, row).await?;
                Ok(Done::Written)
            }
            Err(error) => {
                self.slow_down(&error).await?;
                Ok(Done::Queued(Failure { kind: kind_of(&error), hopeless: is_hopeless(&error) }))
            }
        }
    }

    /// When ManyChat asks for a pause, every process keeps it (GAP-DL-8).
    async fn slow_down(&self, error: &ManyChatError) -> anyhow::Result<()> {
        if let Some(pause) = error.retry_after() {
            rate::push(&self.database, &self.scope.tenant, self.limit, pause).await?;
        }
        Ok(())
    }
}

impl Tally {
    fn add(&mut self, done: Done) {
        match done {
            Done::Written => {
                self.written += 1;
                self.hopeless_in_a_row = 0;
            }
            Done::Queued(Failure { kind, hopeless }) => {
                self.queued += 1;
                self.hopeless_in_a_row = if hopeless { self.hopeless_in_a_row + 1 } else { 0 };
                *self.failures.entry(kind).or_default() += 1;
            }
            Done::Skipped => {}
        }
    }
}

/// The contacts in scope, page by page.
struct Contacts<'run> {
    backfill: &'run Backfill,
    page: VecDeque<Candidate>,
    last: Option<SubscriberId>,
}

impl Contacts<'_> {
    async fn next(&mut self) -> anyhow::Result<Option<Candidate>> {
        if self.page.is_empty() {
            let Backfill { database, scope, .. } = self.backfill;
            self.page = backfill::candidates(database, scope, self.last.as_ref(), PAGE).await?.into();
            if let Some(last) = self.page.back() {
                self.last = Some(last.subscriber.clone());
            }
        }
        Ok(self.page.pop_front())
    }
}

/// Becomes true at the first interrupt of the keyboard.
fn watch_for_interrupt() -> Arc<AtomicBool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            flag.store(true, Ordering::Release);
        }
    });
    interrupted
}

/// Whether a failure says something about ManyChat or the key, not about this contact: several deleted contacts in a row
/// are no reason to stop (BF-4).
fn is_hopeless(error: &ManyChatError) -> bool {
    matches!(error.status(), Some(401 | 403)) || matches!(error, ManyChatError::Connection { .. })
}

/// The kind of a failure without ManyChat's words, which could quote the token (LOG-8).
fn kind_of(error: &ManyChatError) -> String {
    match error.status() {
        Some(status) => format!("{} {status}", error.name()),
        None => error.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BF-1: what is under way gives back what the next contacts are read with.
    #[tokio::test(start_paused = true)]
    async fn contacts_are_read_while_others_are_written() {
        let connections = tokio::sync::Semaphore::new(1);
        let mut under_way: FuturesUnordered<_> = (0..3)
            .map(|number| {
                let connections = &connections;
                async move {
                    let _held = connections.acquire().await.unwrap();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    number
                }
            })
            .collect();
        let first = under_way.next().await;
        let mut ended = Vec::new();
        let reading = beside(connections.acquire(), &mut under_way, |number| ended.push(number));
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        assert!(read.is_ok_and(|held| held.is_ok()));
        assert_eq!((first, ended), (Some(0), vec![1, 2]));
    }
}
