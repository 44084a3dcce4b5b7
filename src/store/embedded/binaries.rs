//! Where the server's programs come from (stack decision on embedded Postgres; EMB-3).

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::EmbeddedError;
use super::fetch::Fetcher;
use crate::store::migrations::OLDEST_SERVER_MAJOR;

/// A directory with `postgres` and `initdb`, and their major version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBinaries {
    directory: PathBuf,
    major: u32,
}

impl ServerBinaries {
    /// Looks in `PG_BINDIR`; in the local installations, for the major that made the newest cluster under `data_dir`,
    /// else the newest; in what was fetched into `data_dir` earlier; and fetches a pinned server there as a last
    /// resort, announced on stderr.
    ///
    /// # Errors
    /// One that names the ways out: install a server, set `DATABASE_URL`, use Compose (EMB-3).
    pub fn find(data_dir: &Path) -> Result<Self, EmbeddedError> {
        Search::of_this_machine(data_dir).run()
    }

    /// The programs in `directory`, if both are there and can be run. They are run from another working directory, so
    /// the path is made absolute.
    pub(super) fn in_directory(directory: &Path) -> Option<Self> {
        let directory = std::path::absolute(directory).ok()?;
        let postgres = directory.join("postgres");
        if !postgres.is_file() || !directory.join("initdb").is_file() {
            return None;
        }
        let answer = Command::new(&postgres).arg("--version").stdin(Stdio::null()).output().ok()?;
        let major = major_of(std::str::from_utf8(&answer.stdout).ok()?)?;
        Some(Self { directory, major })
    }

    /// The major version, 15 or higher.
    #[must_use]
    pub const fn major(&self) -> u32 {
        self.major
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// From `postgres (PostgreSQL) 15.18 (Debian …)`, also for `19beta1`.
fn major_of(version: &str) -> Option<u32> {
    let number =
        version.split_whitespace().find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The majors of the clusters under `data_dir`: each lies in a directory named after its major.
fn majors_of_clusters(data_dir: &Path) -> BTreeSet<u32> {
    numbered_directories(data_dir)
        .into_iter()
        .filter(|(_, directory)| directory.join("PG_VERSION").is_file())
        .map(|(major, _)| major)
        .collect()
}

fn numbered_directories(parent: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let major =
                name.to_str()?.trim_start_matches("pgsql-").trim_start_matches("postgresql@").parse().ok()?;
            Some((major, entry.path()))
        })
        .collect()
}

/// The places to look at, as data, so that tests can look elsewhere.
pub(super) struct Search {
    pub(super) pg_bindir: Option<PathBuf>,
    /// Directories that hold one installation per major: `<root>/<major>/bin`.
    pub(super) roots: Vec<PathBuf>,
    pub(super) path: Vec<PathBuf>,
    pub(super) data_dir: PathBuf,
    pub(super) fetcher: Fetcher,
}

impl Search {
    fn of_this_machine(data_dir: &Path) -> Self {
        let path = env::var_os("PATH").map(|value| env::split_paths(&value).collect());
        Self {
            pg_bindir: env::var_os("PG_BINDIR").filter(|value| !value.is_empty()).map(PathBuf::from),
            // Debian and its children; the project's own packages for Red Hat; Homebrew.
            roots: ["/usr/lib/postgresql", "/usr", "/opt/homebrew/opt", "/usr/local/opt"]
                .map(PathBuf::from)
                .into(),
            path: path.unwrap_or_default(),
            data_dir: data_dir.to_owned(),
            fetcher: Fetcher::default(),
        }
    }

    pub(super) fn run(&self) -> Result<ServerBinaries, EmbeddedError> {
        if let Some(directory) = &self.pg_bindir {
            return chosen_by_hand(directory);
        }
        let wanted = majors_of_clusters(&self.data_dir).pop_last();
        if let Some(found) = self.installed(wanted) {
            return Ok(found);
        }
        match wanted {
            Some(major) if major != Fetcher::MAJOR => {
                Err(EmbeddedError::MajorMissing { directory: self.data_dir.clone(), wanted: major })
            }
            _ => self.fetched(),
        }
    }

    /// The newest of the per-major installations, then what `pg_config` names, then `PATH`.
    fn installed(&self, wanted: Option<u32>) -> Option<ServerBinaries> {
        let fits = |found: &ServerBinaries| {
            wanted.map_or(found.major >= OLDEST_SERVER_MAJOR, |major| found.major == major)
        };
        let mut numbered: Vec<_> = self.roots.iter().flat_map(|root| numbered_directories(root)).collect();
        numbered.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
        let numbered = numbered.into_iter().map(|(_, directory)| directory.join("bin"));
        numbered
            .chain(self.named_by_pg_config())
            .chain(self.path.iter().cloned())
            .filter_map(|directory| ServerBinaries::in_directory(&directory))
            .find(fits)
    }

    /// It alone proves nothing: the client library's headers ship it without a server.
    fn named_by_pg_config(&self) -> Option<PathBuf> {
        let program =
            self.path.iter().map(|directory| directory.join("pg_config")).find(|file| file.is_file())?;
        let answer = Command::new(program).arg("--bindir").stdin(Stdio::null()).output().ok()?;
        Some(PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim()))
    }

    fn fetched(&self) -> Result<ServerBinaries, EmbeddedError> {
        let directory = self.data_dir.join("binaries");
        self.fetcher.programs(&directory).map_err(|fetch| EmbeddedError::NoBinaries { fetch })
    }
}

fn chosen_by_hand(directory: &Path) -> Result<ServerBinaries, EmbeddedError> {
    let unusable = || EmbeddedError::BinariesUnusable { directory: directory.to_owned() };
    let found = ServerBinaries::in_directory(directory).ok_or_else(unusable)?;
    if found.major < OLDEST_SERVER_MAJOR {
        return Err(EmbeddedError::BinariesTooOld { directory: directory.to_owned(), major: found.major });
    }
    Ok(found)
}
