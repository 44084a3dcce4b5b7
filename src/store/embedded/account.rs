//! As whom the server runs. PostgreSQL refuses root, so for root there are two ways, tried in this order: a user
//! namespace in which we look like another user and the files stay root's; or the account of another user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::binaries::ServerBinaries;
use super::error::EmbeddedError;
use super::sys;

/// A user and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    fn named(name: &str) -> Option<Self> {
        let known = fs::read_to_string("/etc/passwd").ok()?;
        known.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next() != Some(name) {
                return None;
            }
            let uid = fields.nth(1)?.parse().ok()?;
            Some(Self { uid, gid: fields.next()?.parse().ok()? })
        })
    }
}

/// A way to run the server's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunAs {
    /// As the caller, who is not root.
    Caller,
    /// As the caller, root, who looks like this existing account inside.
    Namespace(Account),
    /// As this account.
    Other(Account),
}

impl RunAs {
    /// The first way that works here. Who owns a cluster that is already there decides: only its owner can open it.
    pub(super) fn choose(binaries: &ServerBinaries, cluster: &Path) -> Result<Self, EmbeddedError> {
        let made_by = fs::metadata(cluster.join("PG_VERSION"))
            .ok()
            .map(|file| Account { uid: file.uid(), gid: file.gid() });
        let usable = ways(made_by).into_iter().find(|way| way.works_with(binaries));
        usable.ok_or_else(|| match made_by {
            Some(account) => {
                EmbeddedError::ForeignDirectory { directory: cluster.to_owned(), owner: account.uid }
            }
            None => EmbeddedError::RootRefused,
        })
    }

    /// A command in a process group of its own, so that Ctrl-C in a terminal reaches the service only, which stops
    /// the server when it has drained.
    pub(super) fn command(self, program: &Path, ends_with_us: bool) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir("/")
            .env_remove("PGDATA")
            .env("LC_ALL", "C")
            .process_group(0)
            .stdin(Stdio::null());
        let namespace = match self {
            Self::Caller => None,
            Self::Namespace(account) => Some(sys::NamespaceMap::new(account.uid, account.gid)),
            Self::Other(account) => {
                command.uid(account.uid).gid(account.gid);
                None
            }
        };
        sys::before_exec(&mut command, namespace, ends_with_us);
        command
    }

    /// Who must own the server's directories, if not the caller.
    pub(super) const fn owner(self) -> Option<Account> {
        match self {
            Self::Other(account) => Some(account),
            Self::Caller | Self::Namespace(_) => None,
        }
    }

    pub(super) fn works_with(self, binaries: &ServerBinaries) -> bool {
        let mut command = self.command(&binaries.program("postgres"), false);
        command.arg("--version").output().is_ok_and(|answer| answer.status.success())
    }
}

pub(super) fn ways(made_by: Option<Account>) -> Vec<RunAs> {
    if !sys::is_root() {
        let ours = made_by.is_none_or(|account| account.uid == sys::user_id());
        return if ours { vec![RunAs::Caller] } else { Vec::new() };
    }
    let namespace = Account::named("nobody").map(RunAs::Namespace);
    let other = || ["postgres", "nobody"].into_iter().find_map(Account::named).map(RunAs::Other);
    match made_by {
        Some(account) if account.uid != 0 => vec![RunAs::Other(account)],
        Some(_) => namespace.into_iter().collect(),
        None => namespace.into_iter().chain(other()).collect(),
    }
}
