//! What follows a turn whose Settle did not answer.

use super::*;

/// The first Settle does not answer; of the others it is known whether their reply goes behind another.
#[derive(Default)]
struct Unanswered {
    settled: AtomicU64,
    behind: Mutex<Vec<bool>>,
    undecided: Mutex<Option<Undecided>>,
}

struct Unanswering(Arc<Unanswered>);

impl Steps for Unanswering {
    fn keep(&self, _: Arc<TurnRequest>, _: Option<Duration>) -> BoxFuture<'static, KeepReport> {
        Box::pin(async { KeepReport::Kept(Kept::Yes) })
    }

    fn open(&self, _: Arc<TurnRequest>, _: Option<Duration>) -> BoxFuture<'static, OpenReport> {
        Box::pin(async { OpenReport::Started(Box::new(opened(1, false))) })
    }

    fn tools(&self, _: &TurnRequest, _: &OpenTurn) -> Option<Arc<TurnTools>> {
        None
    }

    fn decide(
        &self,
        _: Arc<TurnRequest>,
        _: Arc<OpenTurn>,
        _: Option<Arc<TurnTools>>,
    ) -> BoxFuture<'static, Verdict> {
        Box::pin(async {
            Verdict::Say(Box::new(Draft::of_copy(Reply::scripted("played"), Decision::Scripted)))
        })
    }

    fn settle(
        &self,
        _: Arc<TurnRequest>,
        _: Arc<OpenTurn>,
        _: Verdict,
        way: Way,
        _: Option<Duration>,
    ) -> BoxFuture<'static, SettleReport> {
        let report = if self.0.settled.fetch_add(1, Ordering::AcqRel) == 0 {
            SettleReport::Failed(StoreError::InDoubt.into())
        } else {
            self.0.behind.lock().unwrap().push(way == Way::BehindReply);
            SettleReport::Queued
        };
        Box::pin(async { report })
    }

    fn resolve_later(&self, _: Arc<TurnRequest>, _: Told, _: Failure, reply: Option<Undecided>) {
        *self.0.undecided.lock().unwrap() = reply;
    }

    fn unresolved(&self) -> usize {
        0
    }

    fn render(&self, copy: Copy, _: &Snapshot, _: &str) -> Option<Vec<u8>> {
        Some(format!("{copy:?}").into_bytes())
    }
}

/// ARC-43: as long as nobody knows what became of a Settle, the contact's next reply goes behind it, and the conversation
/// stays in memory; afterwards it goes its usual way.
#[test]
fn the_reply_after_an_undecided_one_goes_behind_it() {
    let runtime = runtime();
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    system.block_on(async move {
        let played = Arc::new(Unanswered::default());
        let stage = Stage::of(runtime, Limits::default(), Arc::new(Unanswering(Arc::clone(&played))));
        let ask = async |number| {
            let (message, answer) = message(number, 1, &stage.snapshot);
            assert_eq!(stage.directory.deliver(message), Accepted::Yes);
            String::from_utf8(answer.await.unwrap().body).unwrap()
        };
        assert_eq!(ask(1).await, "Handoff");
        while played.undecided.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(2).await, "Silent");
        let may_leave = || stage.directory.residents.iter().all(|resident| resident.mailbox.is_at_rest());
        assert!(!may_leave());
        *played.undecided.lock().unwrap() = None;
        assert_eq!(ask(3).await, "Silent");
        assert_eq!(*played.behind.lock().unwrap(), [true, false]);
        assert!(may_leave());
        for arbiter in &stage.arbiters {
            arbiter.stop();
        }
    });
}
