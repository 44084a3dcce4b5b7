//! The four tenant files as one immutable snapshot.

use super::{Catalog, Rules, Tools};

/// One loaded configuration. A turn uses one snapshot from start to end (RLD-8).
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// `prompt.md`, exactly as written (PRM-2).
    pub prompt: String,
    /// `catalog.json`.
    pub catalog: Catalog,
    /// `rules.json`.
    pub rules: Rules,
    /// `tools.json`; `None` when there is no such file.
    pub tools: Option<Tools>,
    /// Short content hash of each file that was read, for the log (GAP-CFG-7).
    pub hashes: Vec<FileHash>,
}

/// Name of a tenant file and the first 12 hex digits of its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHash {
    /// For example `rules.json`.
    pub file: &'static str,
    /// 12 lower-case hex digits.
    pub hash: String,
}
