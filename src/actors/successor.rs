//! An actor that must not end by a panic: actix starts none again, so its successor takes its place here (ARC-22).

use std::sync::atomic::{AtomicBool, Ordering};
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
    arbiter: ArbiterHandle,
    address: RwLock<Option<Addr<A>>>,
    restarts: Restarts,
    /// The process ends: no successor is wanted any longer.
    closed: AtomicBool,
}

/// Held by the actor as long as it lives; it calls [`Tenure::ended`] in its `stopped`, which actix calls after a panic as
/// well.
pub(super) struct Tenure<A: Actor<Context = Context<A>>>(Weak<Shared<A>>);

impl<A: Actor<Context = Context<A>>> Post<A> {
    /// Starts an actor on this arbiter; `make` makes it and its successors.
    pub(super) fn start(
        name: &'static str,
        arbiter: &ArbiterHandle,
        restarts: &Restarts,
        make: impl Fn(Tenure<A>) -> A + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            name,
            make: Box::new(make),
            arbiter: arbiter.clone(),
            address: RwLock::new(None),
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
        self.0.closed.store(true, Ordering::Release);
    }
}

impl<A: Actor<Context = Context<A>>> Clone for Post<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Actor<Context = Context<A>>> Shared<A> {
    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    fn appoint(self: &Arc<Self>) {
        let (shared, tenure) = (Arc::clone(self), Tenure(Arc::downgrade(self)));
        let address = A::start_in_arbiter(&self.arbiter, move |_| (shared.make)(tenure));
        *self.address.write().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }
}

impl<A: Actor<Context = Context<A>>> Tenure<A> {
    /// The actor has ended: its successor starts, unless nobody wants one. What had been sent to it and not handled is
    /// lost; a successor looks at once for what there is to do.
    pub(super) fn ended(&self) {
        let Some(shared) = self.0.upgrade().filter(|shared| shared.is_open()) else { return };
        shared.restarts.note(shared.name);
        let arbiter = shared.arbiter.clone();
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

    use actix::Handler;

    use super::*;

    struct Counter {
        tenure: Tenure<Self>,
        starts: Arc<AtomicUsize>,
    }

    #[derive(actix::Message)]
    #[rtype(result = "usize")]
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
        type Result = usize;

        fn handle(&mut self, _: Count, _: &mut Context<Self>) -> usize {
            self.starts.load(Ordering::Acquire)
        }
    }

    impl Handler<Explode> for Counter {
        type Result = ();

        fn handle(&mut self, _: Explode, _: &mut Context<Self>) {
            panic!("played failure of an actor");
        }
    }

    /// What the actor says when there is one again.
    async fn count(post: &Post<Counter>) -> usize {
        loop {
            if let Ok(starts) = post.address().unwrap().send(Count).await {
                return starts;
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
            let post = Post::start("test", &arbiter.handle(), &restarts, move |tenure| Counter {
                tenure,
                starts: Arc::clone(&counted),
            });
            for failures in 1..=3 {
                assert!(post.address().unwrap().send(Explode).await.is_err());
                assert_eq!(count(&post).await, failures + 1);
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
