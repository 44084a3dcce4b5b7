//! Starts the ManyChat actor, keeps what outlives it, and replaces it when it fails (ARC-22).

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use actix::{Actor, Addr};
use actix_rt::ArbiterHandle;
use tokio::runtime::Handle as Runtime;

use super::actor::{ManyChatActor, Observe};
use super::bucket::Rate;
use super::report::{ManyChatReport, Totals};
use super::shared_rate::SharedRate;
use crate::manychat::{DeliveryClient, Handle, Letter, Names, Orders};
use crate::store::Pulse;

/// What a process needs to deliver: both ends of the channel, who carries calls out, and its names.
pub struct Delivery {
    /// For everybody who wants something from ManyChat.
    pub handle: Handle,
    /// For the actor.
    pub orders: Orders,
    /// ManyChat, or what stands in for it.
    pub client: Arc<dyn DeliveryClient>,
    /// The fields and the flow of the service itself.
    pub names: Names,
    /// `MANYCHAT_REPLY_GAP_MS`.
    pub reply_gap: Duration,
    /// `MANYCHAT_CALLS_PER_SECOND`.
    pub calls_per_second: NonZeroU32,
}

/// What all actors of the row, one after the other, work with.
pub struct Parts {
    pub(super) orders: Mutex<Orders>,
    pub(super) client: Arc<dyn DeliveryClient>,
    pub(super) names: Names,
    pub(super) reply_gap: Duration,
    pub(super) limit: Rate,
    pub(super) rate: Arc<dyn SharedRate>,
    pub(super) pulse: Pulse,
    /// Calls are made on this runtime, never on an arbiter (ARC-21).
    pub(super) io: Runtime,
    pub(super) totals: Totals,
    /// `None` starts actors where the caller is, as tests need.
    arbiter: Option<ArbiterHandle>,
    restarts: AtomicU64,
    stopping: AtomicBool,
    address: Mutex<Option<Addr<ManyChatActor>>>,
}

/// The running actor; cheap to clone.
#[derive(Clone)]
pub struct ManyChat {
    parts: Arc<Parts>,
}

impl Parts {
    pub(in crate::actors) fn new(
        delivery: Delivery,
        rate: Arc<dyn SharedRate>,
        pulse: Pulse,
        io: Runtime,
        arbiter: Option<ArbiterHandle>,
    ) -> Self {
        let Delivery { handle: _, orders, client, names, reply_gap, calls_per_second } = delivery;
        Self {
            orders: Mutex::new(orders),
            client,
            names,
            reply_gap,
            limit: Rate::per_second(calls_per_second),
            rate,
            pulse,
            io,
            totals: Totals::default(),
            arbiter,
            restarts: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            address: Mutex::new(None),
        }
    }

    pub(super) fn poll_letter(&self, context: &mut Context<'_>) -> Poll<Option<Letter>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).poll_next(context)
    }

    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// No successor is wanted any longer.
    pub(super) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    fn start(self: &Arc<Self>) {
        let actor = ManyChatActor::new(Arc::clone(self));
        let address = match &self.arbiter {
            Some(arbiter) => ManyChatActor::start_in_arbiter(arbiter, move |_| actor),
            None => actor.start(),
        };
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// An actor has ended. What it held is answered by its slots; what was not taken out yet waits for its successor.
    /// Without an arbiter the caller's own system has ended, and nothing could be started in it.
    pub(super) fn ended(self: &Arc<Self>) {
        if self.arbiter.is_some() && !self.stopping.load(Ordering::Acquire) {
            self.restarts.fetch_add(1, Ordering::Relaxed);
            tracing::error!("the actor for ManyChat failed and is replaced");
            self.start();
        }
    }
}

impl ManyChat {
    /// Starts the actor.
    pub(in crate::actors) fn start(parts: Parts) -> Self {
        let parts = Arc::new(parts);
        parts.start();
        Self { parts }
    }

    /// Its state; `None` when it is gone.
    pub async fn observe(&self) -> Option<ManyChatReport> {
        let address = self.parts.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        address?.send(Observe).await.ok()
    }

    /// Makes the actor fail.
    #[cfg(test)]
    pub(super) fn explode(&self) {
        let address = self.parts.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(address) = address {
            address.do_send(super::actor::tests::Explode);
        }
    }

    /// From now on a failure is the end.
    pub(in crate::actors) fn stop(&self) {
        self.parts.set_stopping();
    }
}
