//! Panics go through the log like everything else.

use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::time::Duration;

/// How long a panic waits for its line to be written: it may be the last thing this process does.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Replaces the default hook, which would print the payload to standard error: a payload can quote anything, a
/// contact's words and keys included. Install it before anything can panic.
pub fn install_hook() {
    panic::set_hook(Box::new(report));
}

/// Only the place is told: in the log, or on standard error in a command that has none.
fn report(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|at| format!("{}:{}:{}", at.file(), at.line(), at.column()));
    let place = place.as_deref().unwrap_or("unknown");
    if !tracing::dispatcher::has_been_set() {
        let _ = writeln!(std::io::stderr(), "internal error at {place}: please report it");
        return;
    }
    let thread = std::thread::current();
    tracing::error!(location = place, thread = thread.name().unwrap_or("unnamed"), "panic");
    let _ = super::flush(LAST_WORDS);
}

/// The hook is the whole process's, in which tests run beside each other.
#[cfg(test)]
pub(crate) mod testing {
    use std::panic;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    static HELD: Mutex<()> = Mutex::new(());

    /// While it is held, no other test changes the hook.
    pub(crate) fn hold() -> MutexGuard<'static, ()> {
        HELD.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is said of panics whose words begin with `played`.
    pub(crate) fn silence_played() {
        let _held = hold();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let words = info.payload().downcast_ref::<&str>();
            if !words.is_some_and(|words| words.starts_with("played")) {
                before(info);
            }
        }));
    }
}
