//! `SIGHUP`: all four tenant files again, all or nothing (05 section 9).

use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use super::boot;
use crate::config::{ReservedNames, Settings, Tenant};
use crate::turn::Snapshots;

/// Reloads one at a time, on a thread that may block. However many signals arrive during a reload, one more follows
/// it: the files may have changed after they were read (RLD-11).
pub(super) struct Reloader {
    /// One reload; it may block.
    work: Arc<dyn Fn() + Send + Sync>,
    running: Option<JoinHandle<()>>,
    once_more: bool,
}

impl Reloader {
    pub(super) fn new(settings: &Settings, snapshots: Arc<Snapshots>) -> Self {
        let (directory, reserved) = (settings.config_dir.clone(), boot::reserved_names(settings));
        Self::of(Arc::new(move || reload(&directory, &reserved, &snapshots)))
    }

    fn of(work: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { work, running: None, once_more: false }
    }

    /// A signal arrived.
    pub(super) fn ask(&mut self) {
        if self.running.is_some() {
            self.once_more = true;
        } else {
            self.start();
        }
    }

    /// Waits for the running reload, for ever when there is none, and starts the next one that was asked for.
    /// Nothing is lost when the wait is given up.
    pub(super) async fn ended(&mut self) {
        let Some(running) = &mut self.running else { return pending().await };
        if running.await.is_err() {
            tracing::error!(
                error = "the reload failed inside",
                "config reload failed; keeping previous config"
            );
        }
        self.running = None;
        if std::mem::take(&mut self.once_more) {
            self.start();
        }
    }

    fn start(&mut self) {
        let work = Arc::clone(&self.work);
        self.running = Some(spawn_blocking(move || work()));
    }
}

/// Loads and swaps, or keeps what is active (RLD-2, RLD-3).
fn reload(directory: &Path, reserved: &ReservedNames, snapshots: &Snapshots) {
    match Tenant::load(directory, reserved) {
        Ok((tenant, warnings)) => {
            boot::report_configuration(&tenant);
            boot::report_warnings(&warnings);
            snapshots.replace(tenant);
            tracing::info!("config reloaded");
        }
        Err(error) => {
            tracing::error!(error = %error, "config reload failed; keeping previous config");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    /// RLD-11, ARC-21: a reload that takes long blocks nothing; signals meanwhile lead to one more and no third.
    #[tokio::test]
    async fn signals_during_a_reload_lead_to_one_more() {
        let ((began, begun), (end, ends)) = (channel(), channel());
        let ends = Mutex::new(ends);
        let mut reloader = Reloader::of(Arc::new(move || {
            began.send(()).unwrap();
            ends.lock().unwrap().recv().unwrap();
        }));
        reloader.ask();
        begun.recv().unwrap();
        for _ in 0..3 {
            reloader.ask();
        }
        assert!(begun.try_recv().is_err(), "one at a time");
        end.send(()).unwrap();
        reloader.ended().await;
        begun.recv().unwrap();
        end.send(()).unwrap();
        reloader.ended().await;
        assert!(reloader.running.is_none() && begun.try_recv().is_err(), "no third reload");
        reloader.ask();
        begun.recv().unwrap();
        end.send(()).unwrap();
        reloader.ended().await;
    }
}
