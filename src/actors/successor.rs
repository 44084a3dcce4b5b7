//! An actor that must not end by a panic: actix starts none again, so its successor takes its place here (ARC-22).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use actix::{Actor, Addr, Context};
use actix_rt::ArbiterHandle;

use super::supervised::{PAUSE, Restarts};

/// Where messages to such an actor go, whoever holds its place; cheap to clone.
pub(super) struct Post<A: Actor<Context = Context<A>>>(Arc<Shared<A>>);

struct Shared<A: Actor<Context = Context<A>>> {
    /// As it is logged and counted.
    name: &'static str,
    make: Box<dyn Fn(Tenure<A>) -> A + Send + Sync>,
    arbiter: Option<ArbiterHandle>,
    address: RwLock<Option<Addr<A>>>,
    started: AtomicU64,
    restarts: Restarts,
    /// The process ends: no successor is wanted any longer.
    closed: AtomicBool,
}

/// Held by the actor as long as it lives; it calls [`Tenure::ended`] in its `stopped`, which actix calls after a panic as
/// well.
pub(super) struct Tenure<A: Actor<Context = Context<A>>> {
    shared: Weak<Shared<A>>,
    predecessors: u64,
}

impl<A: Actor<Context = Context<A>>> Post<A> {
    /// Starts an actor on this arbiter; `make` makes it and its successors. Without an arbiter it lives where the caller
    /// does, and has no successor: when it ends the caller's own system has ended, too.
    pub(super) fn start(
        name: &'static str,
        arbiter: Option<&ArbiterHandle>,
        restarts: &Restarts,
        make: impl Fn(Tenure<A>) -> A + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            name,
            make: Box::new(make),
            arbiter: arbiter.cloned(),
            address: RwLock::new(None),
            started: AtomicU64::new(0),
            restarts: restarts.clone(),
            closed: AtomicBool::new(false),
        };
        let post = Self(Arc::new(shared));
        post.0.appoint();
        post
    }

    /// The actor of now; `None` when there is none and will be none.
    pub(super) fn address(&self) -> Option<Addr<A>> {
        self.0.address.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on a failure is the end.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

impl<A: Actor<Context = Context<A>>> Clone for Post<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Actor<Context = Context<A>>> Shared<A> {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    fn appoint(self: &Arc<Self>) {
        let predecessors = self.started.fetch_add(1, Ordering::AcqRel);
        let tenure = Tenure { shared: Arc::downgrade(self), predecessors };
        let address = match &self.arbiter {
            Some(arbiter) => {
                let shared = Arc::clone(self);
                A::start_in_arbiter(arbiter, move |_| (shared.make)(tenure))
            }
            None => (self.make)(tenure).start(),
        };
        *self.address.write().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }
}

impl<A: Actor<Context = Context<A>>> Tenure<A> {
    /// How many held the place before.
    pub(super) const fn predecessors(&self) -> u64 {
        self.predecessors
    }

    /// This one is the last.
    pub(super) fn close(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.close();
        }
    }

    /// The actor has ended: its successor starts, unless nobody wants one. What had been sent to it and not handled is
    /// lost; a successor looks at once for what there is to do.
    pub(super) fn ended(&self) {
        let Some(shared) = self.shared.upgrade().filter(|shared| shared.is_open()) else { return };
        let Some(arbiter) = shared.arbiter.clone() else { return };
        shared.restarts.note(shared.name);
        // False when the arbiter has ended, and the process with it.
        let _ = arbiter.spawn(async move {
            tokio::time::sleep(PAUSE).await;
            if shared.is_open() {
                shared.appoint();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use actix::{Handler, MessageResult};

    use super::*;

    struct Counter {
        tenure: Tenure<Self>,
        starts: Arc<AtomicUsize>,
    }

    #[derive(actix::Message)]
    #[rtype(result = "(usize, u64)")]
    struct Count;

    #[derive(actix::Message)]
    #[rtype(result = "()")]
    struct Explode;

    impl Actor for Counter {
        type Context = Context<Self>;

        fn started(&mut self, _: &mut Context<Self>) {
            self.starts.fetch_add(1, Ordering::AcqRel);
        }

        fn stopped(&mut self, _: &mut Context<Self>) {
            self.tenure.ended();
        }
    }

    impl Handler<Count> for Counter {
        type Result = MessageResult<Count>;

        fn handle(&mut self, _: Count, _: &mut Context<Self>) -> Self::Result {
            MessageResult((self.starts.load(Ordering::Acquire), self.tenure.predecessors()))
        }
    }

    impl Handler<Explode> for Counter {
        type Result = ();

        fn handle(&mut self, _: Explode, _: &mut Context<Self>) {
            panic!("played failure of an actor");
        }
    }

    /// What the actor says when there is one again.
    async fn count(post: &Post<Counter>) -> (usize, u64) {
        loop {
            if let Ok(counts) = post.address().unwrap().send(Count).await {
                return counts;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// ARC-22: an actor that fails has a successor and is counted, however often; after the close it has none.
    #[test]
    fn a_failed_actor_has_a_successor_until_the_end() {
        crate::telemetry::panic_hook::silence_played();
        let runtime: &'static tokio::runtime::Runtime = Box::leak(Box::new(
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
        ));
        let system = actix_rt::System::with_tokio_rt(move || runtime);
        system.block_on(async {
            let arbiter = actix_rt::Arbiter::with_tokio_rt(move || runtime);
            let (restarts, starts) = (Restarts::default(), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&starts);
            let post = Post::start("test", Some(&arbiter.handle()), &restarts, move |tenure| Counter {
                tenure,
                starts: Arc::clone(&counted),
            });
            for failures in 1..=3 {
                assert!(post.address().unwrap().send(Explode).await.is_err());
                assert_eq!(count(&post).await, (failures + 1, failures as u64));
                assert_eq!(restarts.count(), failures as u64);
            }
            post.close();
            let last = post.address().unwrap();
            assert!(last.send(Explode).await.is_err());
            assert!(last.send(Count).await.is_err());
            assert_eq!(restarts.count(), 3, "nobody is started any more");
        });
    }
}
