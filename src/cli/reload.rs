//! `SIGHUP`: all four tenant files again, all or nothing (05 section 9).

use super::boot;
use crate::config::{Settings, Tenant};
use crate::turn::Snapshots;

/// Loads and swaps, or keeps what is active (RLD-2, RLD-3).
pub(super) fn run(settings: &Settings, snapshots: &Snapshots) {
    match Tenant::load(&settings.config_dir, &boot::reserved_names(settings)) {
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
