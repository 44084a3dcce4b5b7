//! Why no private server runs, in words for whoever started the command.

use std::io;
use std::path::{Path, PathBuf};

/// Why no private server runs. Every variant is one line that says what to do (EMB-3).
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// EMB-3, EMB-7
    #[error(
        "no PostgreSQL server (15 or newer) was found on this machine, and {fetch}: install the distribution's package `postgresql`, set DATABASE_URL to a running server, or use `docker compose up`"
    )]
    NoBinaries {
        /// What became of the attempt to fetch one.
        fetch: String,
    },
    /// `PG_BINDIR` decides alone when it is set.
    #[error("PG_BINDIR={} holds no runnable `postgres` and `initdb`: correct it, unset it, or set DATABASE_URL to a running server", .directory.display())]
    BinariesUnusable {
        /// As given.
        directory: PathBuf,
    },
    /// DEC-29
    #[error("PG_BINDIR={} holds PostgreSQL {major}; 15 is the oldest supported version", .directory.display())]
    BinariesTooOld {
        /// As given.
        directory: PathBuf,
        /// Its major version.
        major: u32,
    },
    /// A major version opens only directories of its own.
    #[error("{} holds data of PostgreSQL {wanted}, which is not installed here: install that version, name its programs in PG_BINDIR, or use another directory", .directory.display())]
    MajorMissing {
        /// The data directory.
        directory: PathBuf,
        /// The major version that made it.
        wanted: u32,
    },
    /// EMB-4
    #[error("{} is in use by process {holder}: stop it, or set DATABASE_URL to share a server", .directory.display())]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// The process id, or `(unknown)`.
        holder: String,
    },
    /// A directory or file of the server could not be prepared.
    #[error("{}: {reason}: make it writable for this user, or name another directory in DATABASE_URL", .path.display())]
    Directory {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// PostgreSQL refuses to run as root.
    #[error(
        "PostgreSQL does not run as root, and neither a user namespace nor the user `postgres` or `nobody` can be used here: run the service as another user, or set DATABASE_URL to a running server"
    )]
    RootRefused,
    /// The directory was made by another user.
    #[error("{} belongs to user id {owner}, as which its server cannot be run from here: run the service as that user, or use another directory", .directory.display())]
    ForeignDirectory {
        /// The data directory.
        directory: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// A socket's address has 107 bytes.
    #[error("no directory for the server's socket has a short enough path: set TMPDIR to a short one")]
    PathTooLong,
    /// `initdb` ended with an error.
    #[error("`initdb` failed in {}: {message}", .directory.display())]
    Initialise {
        /// The data directory.
        directory: PathBuf,
        /// The end of its output.
        message: String,
    },
    /// The server ended, or was not ready in time.
    #[error("the private PostgreSQL server in {} did not start: {message}", .directory.display())]
    Start {
        /// The data directory.
        directory: PathBuf,
        /// The end of its log.
        message: String,
    },
    /// The server runs but the service's database could not be made.
    #[error("the private PostgreSQL server did not accept its first connection: {0}")]
    FirstConnection(String),
    /// No thread or pipe could be made.
    #[error("the private PostgreSQL server could not be started: {0}")]
    System(io::Error),
}

impl EmbeddedError {
    /// For `map_err` on a file operation.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |reason| Self::Directory { path, reason }
    }
}

/// The end of a program's output as one line of bounded length, its most telling part.
pub(super) fn last_words(output: &str) -> String {
    const LINES: usize = 4;
    const CHARS: usize = 400;
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("; ");
    let skipped = tail.chars().count().saturating_sub(CHARS);
    tail.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EMB-3, CLI-5: one line with each reason once, as a command prints it.
    #[test]
    fn a_reason_is_told_once() {
        let error = EmbeddedError::at(Path::new("/none"))(io::Error::other("no such place"));
        let line = error.to_string();
        assert_eq!(line.matches("no such place").count(), 1, "{line}");
        assert!(std::error::Error::source(&error).is_none(), "a command would print the source once more");
        assert!(line.starts_with("/none: "), "{line}");
    }
}
