//! Hands finished lines to a thread that writes them: whoever logs never waits for whoever reads the log. What does not
//! fit any more is dropped and counted, and the count is told in a line as soon as lines can be written again.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};

/// Where finished lines go. A line ends with its line break and holds nothing that must not be printed.
pub(super) trait Lines {
    /// Takes one line; never fails, at worst the line is lost.
    fn push(&self, line: &str);
}

/// A writer that is written to at once, for tests.
impl<W: Write> Lines for Mutex<W> {
    fn push(&self, line: &str) {
        // A closed or full writer must not stop the service: the line is lost and nothing else.
        let _ = self.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

impl Lines for Arc<Queue> {
    fn push(&self, line: &str) {
        Queue::push(self, line);
    }
}

/// Most bytes of lines that wait, those that are just being written included: some ten thousand lines.
const CAPACITY: usize = 4 * 1024 * 1024;
/// Buffers above this size are given back to the system once they are empty, in bytes.
const KEPT_BUFFER: usize = 256 * 1024;
/// Pause after each write, so that under load one write takes many lines. A line that finds the thread idle is written
/// at once.
const GATHERING: Duration = Duration::from_millis(1);
/// Pause before a writer that cannot take anything just now is tried again.
const NOT_NOW: Duration = Duration::from_millis(10);

/// The queue of this process, once [`start`] was called.
static OF_THE_PROCESS: OnceLock<Arc<Queue>> = OnceLock::new();

/// Lines on their way out.
pub(super) struct Queue {
    capacity: usize,
    /// The line that tells of a number of lost lines.
    lost_line: fn(u64) -> String,
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    /// Complete lines, one behind the other.
    waiting: Vec<u8>,
    /// Bytes that the thread is writing.
    writing: usize,
    /// Lines that were lost and not told of.
    lost: u64,
    /// True after a write that failed: the loss is told of with the next line, for now there may be nobody to tell.
    failing: bool,
    /// True while the thread waits for a line.
    idle: bool,
}

impl State {
    /// Whether there is something to write now.
    const fn has_work(&self) -> bool {
        !self.waiting.is_empty() || (self.lost > 0 && !self.failing)
    }

    const fn is_done(&self) -> bool {
        !self.has_work() && self.writing == 0
    }
}

impl Queue {
    pub(super) fn new(capacity: usize, lost_line: fn(u64) -> String) -> Self {
        Self { capacity, lost_line, state: Mutex::default(), filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, line: &str) {
        let mut state = self.state();
        if state.waiting.len() + state.writing + line.len() > self.capacity {
            state.lost += 1;
            return;
        }
        state.waiting.extend_from_slice(line.as_bytes());
        if mem::take(&mut state.idle) {
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Waits until everything that was logged is written or lost, at most this long. True when nothing is left.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state();
        while !state.is_done() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Writes until the process ends.
    pub(super) fn write_for_ever(&self, mut out: impl Write) {
        let mut batch = Vec::new();
        let mut torn = false;
        loop {
            self.take(&mut batch);
            if torn {
                batch.insert(0, b'\n');
            }
            let written = write_what_can_be(&mut out, &batch);
            let rest = batch.get(written..).unwrap_or_default();
            torn = !rest.is_empty() && written > 0 && batch.get(written - 1) != Some(&b'\n');
            self.written(rest.iter().filter(|byte| **byte == b'\n').count());
            batch.clear();
            if batch.capacity() > KEPT_BUFFER {
                batch = Vec::new();
            }
            thread::sleep(GATHERING);
        }
    }

    /// Waits for lines and takes all of them, with the one that tells how many were lost behind them.
    fn take(&self, batch: &mut Vec<u8>) {
        let mut state = self.state();
        while !state.has_work() {
            state.idle = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        mem::swap(&mut state.waiting, batch);
        let lost = mem::take(&mut state.lost);
        if lost > 0 {
            batch.extend_from_slice((self.lost_line)(lost).as_bytes());
        }
        state.writing = batch.len();
    }

    /// The batch is gone; `lost` lines of it could not be written.
    fn written(&self, lost: usize) {
        let mut state = self.state();
        state.writing = 0;
        state.failing = lost > 0;
        state.lost = state.lost.saturating_add(u64::try_from(lost).unwrap_or(u64::MAX));
        if state.is_done() {
            drop(state);
            self.emptied.notify_all();
        }
    }
}

/// How many bytes the writer took before it failed.
fn write_what_can_be(out: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Standard output was made non-blocking by somebody it is shared with.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(NOT_NOW),
            // A closed pipe, a full disk: the lines are lost and nothing else.
            Err(_) => break,
        }
    }
    written
}

/// Starts the thread that writes to standard output; once per process.
pub(super) fn start(lost_line: fn(u64) -> String) -> io::Result<Arc<Queue>> {
    let queue = Arc::new(Queue::new(CAPACITY, lost_line));
    let out = own_stdout()?;
    let writing = Arc::clone(&queue);
    thread::Builder::new().name("log".to_owned()).spawn(move || writing.write_for_ever(out))?;
    Ok(Arc::clone(OF_THE_PROCESS.get_or_init(|| queue)))
}

/// A handle of its own without a buffer and without the lock that `println!` takes.
fn own_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Waits until everything logged so far is written, at most this long. True when nothing is left, also when the log was
/// never started.
#[must_use]
pub fn flush(limit: Duration) -> bool {
    OF_THE_PROCESS.get().is_none_or(|queue| queue.flush(limit))
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
