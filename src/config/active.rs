//! The configuration that the next turn uses, and its replacement while the service runs (05 section 9).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::{ReservedNames, Tenant, TenantError, Warning};

/// Holds the active snapshot. A turn takes [`Self::current`] once and keeps it to its end (RLD-8).
#[derive(Debug)]
pub struct ActiveTenant {
    dir: PathBuf,
    reserved: ReservedNames,
    current: RwLock<Arc<Tenant>>,
    /// Held during a reload: reloads never overlap (RLD-11).
    reloading: Mutex<()>,
}

impl ActiveTenant {
    /// Loads the files of `dir` for the first time. Reads from the disk.
    ///
    /// # Errors
    /// As [`Tenant::load`]; boot stops with it.
    pub fn load(dir: &Path, reserved: ReservedNames) -> Result<(Self, Vec<Warning>), TenantError> {
        let (tenant, warnings) = Tenant::load(dir, &reserved)?;
        Ok((Self::new(dir, reserved, tenant), warnings))
    }

    /// Starts with a snapshot that is already there; a reload reads `dir`.
    #[must_use]
    pub fn new(dir: &Path, reserved: ReservedNames, tenant: Tenant) -> Self {
        let current = RwLock::new(Arc::new(tenant));
        Self { dir: dir.to_owned(), reserved, current, reloading: Mutex::new(()) }
    }

    /// The active snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Tenant> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads all files again with the checks of boot and swaps them in together (RLD-1, RLD-2). Returns the
    /// warnings. Reads from the disk: call it on a thread that may block. A second caller waits for the first
    /// and then reads the files anew.
    ///
    /// # Errors
    /// As [`Tenant::load`]; the previous snapshot stays active in every part (RLD-3).
    pub fn reload(&self) -> Result<Vec<Warning>, TenantError> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let (tenant, warnings) = Tenant::load(&self.dir, &self.reserved)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tenant);
        Ok(warnings)
    }
}

#[cfg(test)]
#[path = "active_tests.rs"]
mod tests;
