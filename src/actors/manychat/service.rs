//! Starts the ManyChat actor and its successors (ARC-22), and keeps what outlives them.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_rt::ArbiterHandle;
use tokio::runtime::Handle as Runtime;

use super::actor::{ManyChatActor, Observe};
use super::bucket::Rate;
use super::report::{ManyChatReport, Totals};
use super::shared_rate::SharedRate;
use crate::actors::successor::Post;
use crate::actors::supervised::Restarts;
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
}

/// The running actor; cheap to clone.
#[derive(Clone)]
pub struct ManyChat {
    post: Post<ManyChatActor>,
}

impl Parts {
    pub(in crate::actors) fn new(
        delivery: Delivery,
        rate: Arc<dyn SharedRate>,
        pulse: Pulse,
        io: Runtime,
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
        }
    }

    pub(super) fn poll_letter(&self, context: &mut Context<'_>) -> Poll<Option<Letter>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).poll_next(context)
    }
}

impl ManyChat {
    /// Starts the actor. Without an arbiter it lives where the caller does, and has no successor.
    pub(in crate::actors) fn start(
        parts: Parts,
        arbiter: Option<&ArbiterHandle>,
        restarts: &Restarts,
    ) -> Self {
        let parts = Arc::new(parts);
        let make = move |tenure| ManyChatActor::new(Arc::clone(&parts), tenure);
        Self { post: Post::start("manychat", arbiter, restarts, make) }
    }

    /// Its state; `None` when it is gone.
    pub async fn observe(&self) -> Option<ManyChatReport> {
        self.post.address()?.send(Observe).await.ok()
    }

    /// Makes the actor fail.
    #[cfg(test)]
    pub(super) fn explode(&self) {
        if let Some(address) = self.post.address() {
            address.do_send(super::actor::tests::Explode);
        }
    }

    /// From now on a failure is the end.
    pub(in crate::actors) fn stop(&self) {
        self.post.close();
    }
}
