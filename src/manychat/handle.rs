//! The handle: how every room below and above reaches the actor that calls ManyChat, without knowing it (ARC-1).
//! A channel carries the order, a one-shot its answer; dropping the future withdraws the order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::client::CALL_LIMIT;
use super::error::{LostBy, ManyChatError, Unstarted};
use super::request::{Action, Answer, ContactInfo, Priority, Request};
use super::wire::Endpoint;
use crate::domain::{ContactText, Redacted, SubscriberId};
use crate::store::Pulse;

/// Most orders that may be open at once in a process (ARC-23): more than ten minutes of work at ManyChat's rate.
const MOST_OPEN: usize = 10_000;

/// Reaches ManyChat; cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    letters: mpsc::UnboundedSender<Letter>,
    open: Arc<AtomicUsize>,
    next: Arc<AtomicU64>,
    pulse: Pulse,
}

/// Where the actor takes orders out. It outlives an actor that fails, so that its successor finds them.
#[derive(Debug)]
pub struct Orders {
    letters: mpsc::UnboundedReceiver<Letter>,
}

/// Runs right before the first call of an order, when its turn has come: what it says decides whether the call is made.
/// So a caller can write down what begins without calling it begun while it waits for ManyChat's rate (ARC-41).
pub struct Gate(BoxFuture<'static, bool>);

impl Gate {
    /// `open` must be quick: the order's place in the rate is taken while it runs.
    pub fn new(open: impl Future<Output = bool> + Send + 'static) -> Self {
        Self(Box::pin(open))
    }

    /// Whether the call is to be made.
    pub async fn opens(self) -> bool {
        self.0.await
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Gate")
    }
}

/// Tells one order from all others of the process; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(u64);

#[cfg(test)]
impl OrderId {
    /// For tests of the machine, which has no channel.
    pub(crate) const fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// What goes through the channel.
#[derive(Debug)]
pub enum Letter {
    /// Do this.
    Place(Order),
    /// Nobody waits for this one any longer: do not start it, and of a text not its second call.
    Withdraw(OrderId),
}

/// One request with the place for its answer.
#[derive(Debug)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// What to do.
    pub request: Request,
    /// Where the answer goes.
    pub slot: AnswerSlot,
    /// What has to be done before the first call.
    pub gate: Option<Gate>,
    /// When its caller stops waiting; `None` in the background.
    pub until: Option<std::time::Instant>,
    /// The process's unbroken life when it was asked for: after a silence others may have done it (ARC-44).
    pub life: u64,
}

/// The place for one answer. Dropped without one, it tells the caller truthfully what is known.
#[derive(Debug)]
pub struct AnswerSlot {
    answer: Option<oneshot::Sender<Result<Answer, ManyChatError>>>,
    fate: Arc<Fate>,
    endpoint: Endpoint,
    open: Arc<AtomicUsize>,
}

/// Whether an order was begun or given up: whichever comes first, decided once, so that no caller is told that nothing
/// was sent while a call begins (ARC-41).
#[derive(Debug, Default)]
struct Fate(AtomicU8);

impl Fate {
    const BEGUN: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// False when the order was given up before.
    fn begin(&self) -> bool {
        let before = self.0.compare_exchange(0, Self::BEGUN, Ordering::AcqRel, Ordering::Acquire);
        before != Err(Self::GIVEN_UP)
    }

    /// Without effect on an order that has begun.
    fn give_up(&self) {
        let _ = self.0.compare_exchange(0, Self::GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
    }

    fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::BEGUN
    }
}

/// A fresh handle and the other end of its channel. What is asked for is marked with the life that `pulse` then has (ARC-44).
#[must_use]
pub fn channel_of(pulse: Pulse) -> (Handle, Orders) {
    let (sender, letters) = mpsc::unbounded_channel();
    let (open, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let handle = Handle { letters: sender, open, next, pulse };
    (handle, Orders { letters })
}

/// The same for a test in which no process falls silent.
#[cfg(test)]
pub fn channel() -> (Handle, Orders) {
    channel_of(Pulse::new(crate::domain::ProcessId::fresh(), Duration::from_secs(20)))
}

impl Handle {
    /// Delivers one text to one contact: field, then flow, after the contact's earlier texts and at the earliest one
    /// gap after the last of them ended (DEL-1 to DEL-3, PACE-2 to PACE-4). `wait` is what the database says that the
    /// contact's texts have to keep from now. Returns when ManyChat has answered the flow. Drop the future to withdraw the
    /// text; a flow that was not played yet is then not played.
    ///
    /// # Errors
    /// The failure of the call that failed; see [`ManyChatError::class`] for what to do.
    pub async fn send_text(
        &self,
        contact: &SubscriberId,
        text: ContactText,
        wait: Duration,
    ) -> Result<(), ManyChatError> {
        self.perform(contact, Action::SendText { text, wait }, Priority::Background).await
    }

    /// Performs one action: one request, one attempt (PERF-2). Actions of one contact are carried out in the order
    /// in which they were asked for, each after the answer to the one before.
    ///
    /// # Errors
    /// As ManyChat or the connection failed; [`ManyChatError::may_have_acted`] says whether it may have been done.
    pub async fn perform(
        &self,
        contact: &SubscriberId,
        action: Action,
        priority: Priority,
    ) -> Result<(), ManyChatError> {
        self.submit(Request { contact: contact.clone(), priority, action }).await.map(|_| ())
    }

    /// As [`Self::perform`]; `gate` runs when the call is about to start, and may refuse it.
    ///
    /// # Errors
    /// As [`Self::perform`]; [`ManyChatError::NotStarted`] when the gate refused.
    pub async fn perform_through(
        &self,
        contact: &SubscriberId,
        action: Action,
        priority: Priority,
        gate: Gate,
    ) -> Result<(), ManyChatError> {
        let request = Request { contact: contact.clone(), priority, action };
        self.submit_through(request, Some(gate)).await.map(|_| ())
    }

    /// Writes a contact token (API-22). It waits for no text and no action of the contact.
    ///
    /// # Errors
    /// As ManyChat or the connection failed; the error holds none of ManyChat's words (LOG-8).
    pub async fn write_token(
        &self,
        contact: &SubscriberId,
        token: Redacted<String>,
        priority: Priority,
    ) -> Result<(), ManyChatError> {
        self.perform(contact, Action::WriteToken { token }, priority).await
    }

    /// Reads the contact's tags and fields within `limit`, waiting included (READ-6).
    ///
    /// # Errors
    /// As ManyChat or the connection failed; after `limit` with the reason `aborted` (API-46).
    pub async fn read_contact(
        &self,
        contact: &SubscriberId,
        limit: Duration,
    ) -> Result<ContactInfo, ManyChatError> {
        let request =
            Request { contact: contact.clone(), priority: Priority::InRequest, action: Action::GetInfo };
        let aborted =
            ManyChatError::Connection { endpoint: Endpoint::GetInfo, reason: LostBy::Aborted, sent: false };
        let until = Instant::now() + limit.min(CALL_LIMIT);
        match timeout_at(until, self.place(request, None, Some(until))?).await {
            Ok(Ok(Answer::Contact(info))) => Ok(info),
            // Only a read is answered with a contact, and a read with nothing else.
            Ok(Ok(Answer::Accepted)) => Ok(ContactInfo::default()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(aborted),
        }
    }

    /// Hands in a request and waits for its outcome. A call inside a request has 10 s in all, time in the queue
    /// included (API-3); in the background only the call itself is limited, so that a long queue makes no failed
    /// attempts (GAP-DL-7). Drop the future to withdraw.
    ///
    /// # Errors
    /// As the call failed. Of a call inside a request [`ManyChatError::NotStarted`] when its turn does not come in time:
    /// at once when that is known before.
    pub async fn submit(&self, request: Request) -> Result<Answer, ManyChatError> {
        self.submit_through(request, None).await
    }

    async fn submit_through(&self, request: Request, gate: Option<Gate>) -> Result<Answer, ManyChatError> {
        if request.priority == Priority::Background {
            return self.place(request, gate, None)?.await;
        }
        let until = Instant::now() + CALL_LIMIT;
        let ticket = self.place(request, gate, Some(until))?;
        let (endpoint, fate) = (ticket.endpoint, Arc::clone(&ticket.fate));
        // The ticket is gone when its time is over: what has not begun by then does not begin any more.
        timeout_at(until, ticket).await.unwrap_or_else(|_| {
            Err(if fate.has_begun() {
                ManyChatError::Connection { endpoint, reason: LostBy::Timeout, sent: true }
            } else {
                ManyChatError::NotStarted { reason: Unstarted::OutOfTime }
            })
        })
    }

    /// Orders that are not answered yet.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    fn place(
        &self,
        request: Request,
        gate: Option<Gate>,
        until: Option<Instant>,
    ) -> Result<Ticket, ManyChatError> {
        // Not when the actor takes the letter: the machine may stand still in between (ARC-44).
        let life = self.pulse.life();
        let not_started = |reason| ManyChatError::NotStarted { reason };
        if self.open() >= MOST_OPEN {
            return Err(not_started(Unstarted::QueueFull));
        }
        self.open.fetch_add(1, Ordering::AcqRel);
        let (sender, answer) = oneshot::channel();
        let id = OrderId(self.next.fetch_add(1, Ordering::Relaxed));
        let endpoint = request.action.endpoint();
        let fate = Arc::new(Fate::default());
        let slot = AnswerSlot {
            answer: Some(sender),
            fate: Arc::clone(&fate),
            endpoint,
            open: Arc::clone(&self.open),
        };
        let until = until.map(Instant::into_std);
        // A letter that cannot be sent is dropped, and its slot with it.
        let sent = self.letters.send(Letter::Place(Order { id, request, slot, gate, until, life }));
        sent.map_err(|_| not_started(Unstarted::Stopped))?;
        Ok(Ticket { id, answer, fate, endpoint, letters: self.letters.clone(), answered: false })
    }
}

/// Waits for one answer; withdraws the order when it is dropped before.
struct Ticket {
    id: OrderId,
    answer: oneshot::Receiver<Result<Answer, ManyChatError>>,
    fate: Arc<Fate>,
    endpoint: Endpoint,
    letters: mpsc::UnboundedSender<Letter>,
    answered: bool,
}

impl Future for Ticket {
    type Output = Result<Answer, ManyChatError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.answer).poll(context);
        polled.map(|answer| {
            self.answered = true;
            answer.unwrap_or(Err(ManyChatError::NotStarted { reason: Unstarted::Stopped }))
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.answered {
            self.fate.give_up();
            // Without a receiver there is nothing left to withdraw from.
            let _ = self.letters.send(Letter::Withdraw(self.id));
        }
    }
}

impl Orders {
    /// The next letter; `None` when every handle is gone.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Letter>> {
        self.letters.poll_recv(context)
    }
}

impl AnswerSlot {
    /// Asks whether a call for this order may be made, right before it: from then on it may have been carried out. False
    /// when its caller has given it up before its first call; then no call is to be made.
    #[must_use]
    pub fn start(&self) -> bool {
        self.fate.begin()
    }

    /// Gives the answer. Nobody may be waiting any longer; that is no error.
    pub fn answer(mut self, outcome: Result<Answer, ManyChatError>) {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(outcome);
        }
    }
}

impl Drop for AnswerSlot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        if let Some(answer) = self.answer.take() {
            let lost = if self.fate.has_begun() {
                ManyChatError::Connection { endpoint: self.endpoint, reason: LostBy::Network, sent: true }
            } else {
                ManyChatError::NotStarted { reason: Unstarted::Stopped }
            };
            let _ = answer.send(Err(lost));
        }
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
