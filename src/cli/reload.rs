//! `SIGHUP`: all four tenant files again, all or nothing (05 section 9).

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use super::boot;
use crate::config::{ReservedNames, Settings, Tenant};
use crate::turn::Snapshots;

/// Reloads one at a time, on a thread that may block. However many signals arrive during a reload, one more follows
/// it: the files may have changed after they were read (RLD-11).
pub(super) struct Reloader {
    directory: PathBuf,
    reserved: ReservedNames,
    snapshots: Arc<Snapshots>,
    running: Option<JoinHandle<()>>,
    once_more: bool,
}

impl Reloader {
    pub(super) fn new(settings: &Settings, snapshots: Arc<Snapshots>) -> Self {
        Self {
            directory: settings.config_dir.clone(),
            reserved: boot::reserved_names(settings),
            snapshots,
            running: None,
            once_more: false,
        }
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
        let (directory, reserved) = (self.directory.clone(), self.reserved.clone());
        let snapshots = Arc::clone(&self.snapshots);
        self.running = Some(spawn_blocking(move || reload(&directory, &reserved, &snapshots)));
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
