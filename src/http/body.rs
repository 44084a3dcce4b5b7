//! A response body that knows whether it was handed over (ARC-32).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use crate::actors::Owed;

/// The one chunk of an answer and what it owes. When the chunk is never taken, because the connection
/// ended first, dropping the body sends what it owes through the outbox (GAP-CH-7).
pub(super) struct AnswerBody {
    chunk: Option<Bytes>,
    length: u64,
    owed: Option<Owed>,
}

impl AnswerBody {
    pub(super) fn new(body: Vec<u8>, owed: Option<Owed>) -> Self {
        Self { length: body.len() as u64, chunk: Some(body.into()), owed }
    }
}

impl MessageBody for AnswerBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.length)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let body = self.get_mut();
        let chunk = body.chunk.take();
        if chunk.is_some()
            && let Some(owed) = body.owed.take()
        {
            owed.handed_over();
        }
        Poll::Ready(chunk.map(Ok))
    }
}
