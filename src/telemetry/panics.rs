//! Panics go through the log like everything else.

use std::panic::{self, PanicHookInfo};

/// Replaces the default hook, which would print the payload to standard error.
pub(super) fn install_hook() {
    panic::set_hook(Box::new(log_panic));
}

/// The payload can quote anything, so only the place is told.
fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|at| format!("{}:{}:{}", at.file(), at.line(), at.column()));
    let thread = std::thread::current();
    tracing::error!(
        location = place.as_deref().unwrap_or("unknown"),
        thread = thread.name().unwrap_or("unnamed"),
        "panic"
    );
}
