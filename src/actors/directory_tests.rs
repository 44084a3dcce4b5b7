//! The promise of the directory under load: whatever fails, no message is lost, none is run twice, and no contact
//! has two turns at once (ARC-20).

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use actix_rt::Arbiter;
use futures_util::future::BoxFuture;
use rust_decimal::Decimal;
use tokio::sync::oneshot;

use super::*;
use crate::actors::answer::{Answer, Told, Undecided};
use crate::actors::confirmer::Confirmer;
use crate::actors::conversation::{Copy, Steps};
use crate::actors::resolver::Failure;
use crate::config::demo;
use crate::domain::{Binding, ContactText, ConversationId, Fence, ProcessId};
use crate::model::Reply;
use crate::store::inbox::Kept;
use crate::store::open::{OpenTurn, Waits};
use crate::store::{Pulse, StoreError};
use crate::tools::TurnTools;
use crate::turn::{Decision, Draft, KeepReport, OpenReport, SettleReport, TurnRequest, Verdict, Way};

const CONVERSATIONS: u64 = 20_000;
const MESSAGES: u64 = 120_000;

/// A small generator that gives every run the same numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Steps that fail at random in every way a step can, and that watch the promise.
struct Played {
    numbers: Mutex<Numbers>,
    busy: DashMap<ContactKey, ()>,
    runs: DashMap<u64, u32>,
    order: DashMap<ContactKey, u64>,
    two_turns: AtomicU64,
    out_of_order: AtomicU64,
    actor_panics: AtomicU64,
    step_panics: AtomicU64,
    calm: AtomicBool,
    unresolved: AtomicUsize,
}

impl Played {
    fn new() -> Self {
        Self {
            numbers: Mutex::new(Numbers(0x5eed_1234_abcd_0001)),
            busy: DashMap::new(),
            runs: DashMap::new(),
            order: DashMap::new(),
            two_turns: AtomicU64::new(0),
            out_of_order: AtomicU64::new(0),
            actor_panics: AtomicU64::new(0),
            step_panics: AtomicU64::new(0),
            calm: AtomicBool::new(false),
            unresolved: AtomicUsize::new(0),
        }
    }

    /// True once in `every` calls, at random.
    fn chance(&self, every: u64) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.numbers.lock().unwrap().next().is_multiple_of(every)
    }

    fn note_start(&self, key: &ContactKey, request: &TurnRequest, taken: usize) {
        if !is_unbound(request) && self.busy.insert(key.clone(), ()).is_some() {
            self.two_turns.fetch_add(1, Ordering::Relaxed);
        }
        self.note_run(key, request, taken);
    }

    /// Here, in a turn that failed, or in another process.
    fn note_run(&self, key: &ContactKey, request: &TurnRequest, taken: usize) {
        for message in request.messages.iter().take(taken) {
            let number: u64 = message.text.expose().parse().unwrap();
            *self.runs.entry(number).or_insert(0) += 1;
            if is_unbound(request) {
                continue;
            }
            let before = self.order.insert(key.clone(), number);
            if before.is_some_and(|last| last > number) {
                self.out_of_order.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn note_end(&self, request: &TurnRequest) {
        if !is_unbound(request) {
            self.busy.remove(&key_of(request));
        }
    }

    /// The lane is held; now and then another process has taken over the first message meanwhile.
    fn waits(&self, request: &TurnRequest) -> OpenReport {
        let gone = usize::from(self.chance(4));
        self.note_run(&key_of(request), request, gone);
        let kept = request.rows.iter().skip(gone).map(|row| row.id).collect();
        OpenReport::Waiting(Waits { conversation: Some(ConversationId::fresh()), kept, owed_first: None })
    }
}

fn key_of(request: &TurnRequest) -> ContactKey {
    let message = &request.messages[0];
    (message.tenant.clone(), message.subscriber.clone())
}

/// True when the message of this request proves nothing, so that it waits for nobody (LANE-3).
fn is_unbound(request: &TurnRequest) -> bool {
    request.messages.iter().any(|message| message.token.is_some())
}

fn opened(taken: usize, beside: bool) -> OpenTurn {
    OpenTurn {
        conversation: ConversationId::fresh(),
        binding: if beside { Binding::Unbound } else { Binding::First },
        fence: (!beside).then(|| Fence::new(1)),
        taken,
        turn_count: Some(1),
        hourly_count: Some(1),
        spent_tokens: 0,
        spent_usd: Decimal::ZERO,
        running_before: 0,
        reply_queued: false,
        handoff: None,
        token_row: None,
        history: Vec::new(),
        offering: None,
        offering_before: None,
        acted: None,
        attempted: Vec::new(),
    }
}

struct Watch(Arc<Played>);

impl Steps for Watch {
    fn keep(&self, request: Arc<TurnRequest>, _: Option<Duration>) -> BoxFuture<'static, KeepReport> {
        let played = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::task::yield_now().await;
            if is_unbound(&request) {
                return KeepReport::Kept(Kept::Beside);
            }
            if played.chance(40) {
                // Ended with a person, whatever waits before it.
                let number: u64 = request.messages[0].text.expose().parse().unwrap();
                *played.runs.entry(number).or_insert(0) += 1;
                return KeepReport::Failed(StoreError::InDoubt.into());
            }
            KeepReport::Kept(if played.chance(10) { Kept::NoConversation } else { Kept::Yes })
        })
    }

    fn open(&self, request: Arc<TurnRequest>, _: Option<Duration>) -> BoxFuture<'static, OpenReport> {
        let key = key_of(&request);
        let all = request.messages.len();
        // In the actor's own handler: the actor dies, with the messages of this turn in its hands. Not with another turn
        // in the lane, whose end only the database would know.
        if !is_unbound(&request) && self.0.chance(500) {
            self.0.actor_panics.fetch_add(1, Ordering::Relaxed);
            self.0.note_start(&key, &request, all);
            self.0.note_end(&request);
            panic!("played failure of an actor");
        }
        let played = Arc::clone(&self.0);
        Box::pin(async move {
            if !is_unbound(&request) && played.chance(50) {
                return played.waits(&request);
            }
            let failed = played.chance(60);
            let taken = if !failed && all > 1 && played.chance(4) { all - 1 } else { all };
            played.note_start(&key, &request, taken);
            tokio::task::yield_now().await;
            if failed {
                played.note_end(&request);
                return OpenReport::Failed(StoreError::InDoubt.into());
            }
            OpenReport::Started(Box::new(opened(taken, is_unbound(&request))))
        })
    }

    fn tools(&self, _: &TurnRequest, _: &OpenTurn) -> Option<Arc<TurnTools>> {
        None
    }

    fn decide(
        &self,
        request: Arc<TurnRequest>,
        _: Arc<OpenTurn>,
        _: Option<Arc<TurnTools>>,
    ) -> BoxFuture<'static, Verdict> {
        let played = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::task::yield_now().await;
            if played.chance(500) {
                played.step_panics.fetch_add(1, Ordering::Relaxed);
                played.note_end(&request);
                panic!("played failure of a step");
            }
            Verdict::Say(Box::new(Draft::of_copy(Reply::scripted("played"), Decision::Scripted)))
        })
    }

    fn settle(
        &self,
        request: Arc<TurnRequest>,
        _: Arc<OpenTurn>,
        _: Verdict,
        _: Way,
        _: Option<Duration>,
    ) -> BoxFuture<'static, SettleReport> {
        let played = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::task::yield_now().await;
            played.note_end(&request);
            SettleReport::Inline { body: b"reply".to_vec(), others_wait: false }
        })
    }

    fn resolve_later(&self, _: Arc<TurnRequest>, _: Told, _: Failure, _: Option<Undecided>) {}

    fn unresolved(&self) -> usize {
        self.0.unresolved.load(Ordering::Relaxed)
    }

    fn render(&self, copy: Copy, _: &Snapshot, _: &str) -> Option<Vec<u8>> {
        Some(format!("{copy:?}").into_bytes())
    }
}

fn message(number: u64, contact: u64, snapshot: &Arc<Snapshot>) -> (Message, oneshot::Receiver<Answer>) {
    let (outgoing, answer) = oneshot::channel();
    let inbound = InboundMessage {
        tenant: TenantId::new("test").unwrap(),
        subscriber: SubscriberId::new(&contact.to_string()).unwrap(),
        text: ContactText::new(number.to_string()),
        channel: "whatsapp".to_owned(),
        contact_name: None,
        locale: None,
        token: number.is_multiple_of(9).then(|| Redacted::new("forged".to_owned())),
        media: None,
        offering: None,
        received_at: jiff::Timestamp::UNIX_EPOCH,
    };
    let message = Message {
        inbound,
        presented_secret: Redacted::new("secret".into()),
        snapshot: Arc::clone(snapshot),
        deadline: Deadline::after(Instant::now(), Duration::from_secs(300)),
        outgoing,
        is_gone: Arc::new(|| false),
        span: tracing::Span::none(),
    };
    (message, answer)
}

#[path = "directory_undecided_tests.rs"]
mod undecided;

struct Stage {
    played: Arc<Played>,
    directory: Arc<Directory>,
    arbiters: Vec<Arbiter>,
    snapshot: Arc<Snapshot>,
}

impl Stage {
    fn new(runtime: &'static tokio::runtime::Runtime, limits: Limits) -> Self {
        let played = Arc::new(Played::new());
        let stage = Self::of(runtime, limits, Arc::new(Watch(Arc::clone(&played))));
        Self { played, ..stage }
    }

    fn of(runtime: &'static tokio::runtime::Runtime, limits: Limits, steps: Arc<dyn Steps>) -> Self {
        let arbiters: Vec<Arbiter> = (0..2).map(|_| Arbiter::with_tokio_rt(move || runtime)).collect();
        let shared = Shared {
            steps,
            confirmer: Confirmer::detached(),
            waker: Default::default(),
            pulse: Pulse::new(ProcessId::fresh(), Duration::from_secs(20)),
            lanes: Default::default(),
            recoverer: None,
            io: runtime.handle().clone(),
        };
        let handles = arbiters.iter().map(Arbiter::handle).collect();
        let directory = Directory::new(handles, Arc::new(shared), limits);
        let snapshot = Arc::new(Snapshot::new(demo::tenant().unwrap()));
        Self { played: Arc::new(Played::new()), directory, arbiters, snapshot }
    }

    /// Returns when none of them runs anything any more.
    fn end_arbiters(&mut self) {
        for arbiter in self.arbiters.drain(..) {
            arbiter.stop();
            arbiter.join().unwrap();
        }
    }
}

fn runtime() -> &'static tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    Box::leak(Box::new(built.unwrap()))
}

/// ARC-20, ARC-22, LANE-11: 20 000 conversations, panics in actors and in steps, failing and held lanes, and every actor
/// asked to leave all the time.
#[test]
fn no_message_is_lost_or_run_twice_whatever_fails() {
    crate::telemetry::panic_hook::silence_played();
    let runtime = runtime();
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    system.block_on(async move {
        let stage = Stage::new(
            runtime,
            Limits { idle: Duration::ZERO, waiting_per_contact: 1000, open_messages: 1_000_000 },
        );
        let sweeping = Arc::clone(&stage.directory);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sweeper = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                sweeping.sweep();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut numbers = Numbers(0xfeed_beef_0000_0042);
        let mut answers = Vec::with_capacity(MESSAGES as usize);
        for number in 0..MESSAGES {
            let (message, answer) = message(number, numbers.next() % CONVERSATIONS, &stage.snapshot);
            assert_eq!(stage.directory.deliver(message), Accepted::Yes);
            // A request takes its answer as soon as it is there, and its reply is out of our hands then.
            answers.push(tokio::spawn(async move { answer.await.map(|answer| answer.body) }));
            if number % 256 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut told: HashMap<String, u64> = HashMap::new();
        for answer in answers {
            // A closed channel is a request that answers the handoff by itself.
            let body = tokio::time::timeout(Duration::from_secs(60), answer)
                .await
                .unwrap_or_else(|_| panic!("an answer is lost: {:?}", stage.directory.report(5)))
                .unwrap();
            let body = body.map_or_else(|_| "closed".to_owned(), |body| String::from_utf8(body).unwrap());
            *told.entry(body).or_insert(0) += 1;
        }
        stop.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
        check(&stage, &told).await;
        for arbiter in &stage.arbiters {
            arbiter.stop();
        }
    });
}

async fn check(stage: &Stage, told: &HashMap<String, u64>) {
    let played = &stage.played;
    let run_once = played.runs.iter().filter(|run| *run.value() == 1).count() as u64;
    assert_eq!(run_once, MESSAGES, "every message runs exactly once");
    assert_eq!(played.two_turns.load(Ordering::Relaxed), 0, "two turns of one contact at once");
    assert_eq!(played.out_of_order.load(Ordering::Relaxed), 0, "messages out of order");
    let report = stage.directory.report(10);
    assert!(played.actor_panics.load(Ordering::Relaxed) > 20, "actors must have failed");
    assert!(played.step_panics.load(Ordering::Relaxed) > 20, "steps must have failed");
    assert!(report.passivated > 1000, "actors must have left: {}", report.passivated);
    assert_eq!(report.failed, played.actor_panics.load(Ordering::Relaxed), "failed actors are counted");
    // The earlier messages of a burst are told silence.
    assert!(told.get("reply").copied().unwrap_or(0) > MESSAGES / 4, "told: {told:?}");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        stage.directory.sweep();
        if stage.directory.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(stage.directory.is_empty(), "idle conversations stay in memory: {}", stage.directory.len());
    assert_eq!(stage.directory.open_messages(), 0, "messages counted as open");
}

/// ARC-23, DEC-35: a contact with too many waiting messages, and a process with too many open ones, shed load.
#[test]
fn the_directory_sheds_load_at_its_bounds() {
    let runtime = runtime();
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    system.block_on(async move {
        // No arbiter runs, so nothing is ever taken out of a mailbox.
        let mut stage =
            Stage::new(runtime, Limits { waiting_per_contact: 3, open_messages: 5, ..Limits::default() });
        stage.end_arbiters();
        let mut kept = Vec::new();
        let mut send = |number, contact| {
            let (message, answer) = message(number, contact, &stage.snapshot);
            kept.push(answer);
            stage.directory.deliver(message)
        };
        let first: Vec<Accepted> = (1..5).map(|number| send(number, 1)).collect();
        assert_eq!(first, [Accepted::Yes, Accepted::Yes, Accepted::Yes, Accepted::Overloaded]);
        let second: Vec<Accepted> = (5..8).map(|number| send(number, 2)).collect();
        assert_eq!(second, [Accepted::Yes, Accepted::Yes, Accepted::Overloaded]);
    });
}

/// ARC-23: failed turns whose messages are still in memory count among the open ones.
#[test]
fn failed_turns_count_until_they_are_on_record() {
    let runtime = runtime();
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    system.block_on(async move {
        let stage = Stage::new(runtime, Limits { open_messages: 5, ..Limits::default() });
        for arbiter in &stage.arbiters {
            arbiter.stop();
        }
        stage.played.unresolved.store(4, Ordering::Relaxed);
        let sent = [1, 2].map(|number| {
            let (message, answer) = message(number, number, &stage.snapshot);
            (stage.directory.deliver(message), answer)
        });
        assert_eq!(sent.map(|(accepted, _)| accepted), [Accepted::Yes, Accepted::Overloaded]);
        stage.played.unresolved.store(0, Ordering::Relaxed);
        assert!(!stage.directory.is_full());
    });
}

/// LANE-3, ORD-2: messages with another token than the contact's have a bound of their own.
#[test]
fn forged_messages_do_not_use_up_the_contacts_bound() {
    let runtime = runtime();
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    system.block_on(async move {
        let mut stage =
            Stage::new(runtime, Limits { waiting_per_contact: 2, open_messages: 50, ..Limits::default() });
        stage.end_arbiters();
        let mut kept = Vec::new();
        // Multiples of nine carry a forged token.
        let sent: Vec<Accepted> = [9, 18, 27, 1]
            .into_iter()
            .map(|number| {
                let (message, answer) = message(number, 1, &stage.snapshot);
                kept.push(answer);
                stage.directory.deliver(message)
            })
            .collect();
        assert_eq!(sent, [Accepted::Yes, Accepted::Yes, Accepted::Overloaded, Accepted::Yes]);
    });
}
