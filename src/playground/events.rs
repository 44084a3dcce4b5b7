//! The stream of updates to a page: server-sent events, one for each change, and a sign of life between them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::board::{Board, Update};

/// Longest silence. The page takes twice of it for a lost connection.
const SILENCE: Duration = Duration::from_secs(10);
/// How soon a browser tries again after the stream has ended, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// One open page.
struct Viewer {
    board: Arc<Board>,
    changes: watch::Receiver<u64>,
    seen: Option<u64>,
}

/// Everything there is, then every change, until the board is closed.
pub(super) fn stream(board: Arc<Board>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let changes = board.changes();
    unfold(Viewer { board, changes, seen: None }, |mut viewer| async {
        let frame = viewer.next().await?;
        Some((Ok(frame), viewer))
    })
}

impl Viewer {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.board.is_closed() {
                return None;
            }
            self.changes.mark_unchanged();
            if let Some(update) = self.board.since(self.seen) {
                let first = self.seen.replace(update.revision).is_none();
                return frame(&update, first);
            }
            match tokio::time::timeout(SILENCE, self.changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some(Bytes::from_static(b"event: alive\ndata: {}\n\n")),
            }
        }
    }
}

/// JSON holds no line break, so one `data` line carries it.
fn frame(update: &Update, first: bool) -> Option<Bytes> {
    let json = serde_json::to_string(update).ok()?;
    let retry = if first { RETRY } else { "" };
    Some(Bytes::from(format!("{retry}event: update\ndata: {json}\n\n")))
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::super::board::{About, Switches};
    use super::*;
    use crate::domain::{ChannelName, SubscriberId};

    fn text(frame: Option<Result<Bytes, Infallible>>) -> String {
        String::from_utf8(frame.unwrap().unwrap().to_vec()).unwrap()
    }

    /// DEC-16: all at first, then changes, signs of life in between, and an end when the service stops.
    #[tokio::test(start_paused = true)]
    async fn a_page_gets_everything_then_changes_until_the_end() {
        let board = Arc::new(Board::new(About::default(), Switches::default()));
        let mut frames = Box::pin(stream(Arc::clone(&board)));
        let first = text(frames.next().await);
        assert!(first.starts_with("retry: 1000\n\nevent: update\ndata: {\"whole\":true"), "{first}");
        assert!(first.ends_with("}\n\n"));
        assert!(text(frames.next().await).starts_with("event: alive"), "nothing has happened");
        board.add(SubscriberId::new("1\n\n2").unwrap(), ChannelName::Whatsapp);
        let change = text(frames.next().await);
        assert!(change.starts_with("event: update\ndata: {\"whole\":false"), "{change}");
        assert_eq!(change.trim_end().lines().count(), 2, "one line of data, whatever an id holds");
        assert!(board.is_watched());
        board.close();
        assert!(frames.next().await.is_none());
        drop(frames);
        assert!(!board.is_watched());
    }
}
