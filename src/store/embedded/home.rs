//! The directories of one server: who holds them, where they lie, and that nothing of a dead process stays behind.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::{env, process};

use super::account::RunAs;
use super::error::EmbeddedError;
use super::{cluster, sys};

/// A socket address has room for this many bytes, of which the name of Postgres's socket takes 14 with its slash.
const SOCKET_DIRECTORY_BYTES: usize = 107 - "/.s.PGSQL.5432".len();
/// A fresh cluster has 40 MB and a test run adds its databases.
const MEMORY_ROOM: u64 = 1024 * 1024 * 1024;
const PREFIX: &str = "agent-postgres-";

/// An exclusive hold on a file, given back by the kernel however the process ends.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    fn take(path: &Path, directory: &Path) -> Result<Self, EmbeddedError> {
        let options = OpenOptions::new().read(true).write(true).create(true).mode(0o600).clone();
        let file = options.open(path).map_err(EmbeddedError::at(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder_in(&file).unwrap_or_else(|| "(unknown)".to_owned());
                return Err(EmbeddedError::InUse { directory: directory.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(EmbeddedError::at(path)(error)),
        }
        let lock = Self { path: path.to_owned(), file };
        lock.sign().map_err(EmbeddedError::at(path))?;
        Ok(lock)
    }

    /// Writes our process id into the file, for the message of the next one that comes.
    fn sign(&self) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", process::id())
    }

    /// Whether the path still leads to the file that is held: a sweeper may have removed it just before.
    fn is_in_place(&self) -> bool {
        let held = self.file.metadata().map(|file| file.ino()).ok();
        held.is_some() && held == fs::symlink_metadata(&self.path).map(|file| file.ino()).ok()
    }
}

fn holder_in(mut file: &File) -> Option<String> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|pid| !pid.is_empty())
}

/// A directory with a lock file beside it, both removed at the end; those of a killed process by the next start.
#[derive(Debug)]
struct Scratch {
    directory: PathBuf,
    lock: Lock,
}

impl Scratch {
    fn create(base: &Path) -> Result<Self, EmbeddedError> {
        sweep(base);
        loop {
            let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
            let lock_path = base.join(format!("{name}.lock"));
            match Lock::take(&lock_path, base) {
                // A sweeper came between the making of the file and the lock: another name.
                Err(EmbeddedError::InUse { .. }) => continue,
                Err(error) => return Err(error),
                Ok(lock) if !lock.is_in_place() => continue,
                Ok(lock) => {
                    let directory = base.join(name);
                    make_private(&directory)?;
                    return Ok(Self { directory, lock });
                }
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_scratch(&self.directory, &self.lock.path);
    }
}

/// The lock file goes last: as long as it is there, a sweeper finds the rest.
fn remove_scratch(directory: &Path, lock_path: &Path) {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {}
        _ => {
            let _ = fs::remove_file(lock_path);
        }
    }
}

/// Removes what killed processes of this user left in `base` (EMB-5): everything whose lock nobody holds.
pub(super) fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let lock_path = entry.path();
        let ours = entry.metadata().is_ok_and(|file| file.is_file() && file.uid() == sys::user_id());
        let Some(directory) = scratch_of(&lock_path).filter(|_| ours) else { continue };
        let Ok(file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&lock_path) else {
            continue;
        };
        if file.try_lock().is_ok() {
            cluster::end_orphan(&directory.join("data"));
            remove_scratch(&directory, &lock_path);
        }
    }
}

/// The directory that belongs to a lock file of ours; nothing else is ever removed.
fn scratch_of(lock_path: &Path) -> Option<PathBuf> {
    let name = lock_path.file_name()?.to_str()?.strip_suffix(".lock")?;
    let id = name.strip_prefix(PREFIX)?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| lock_path.with_file_name(name))
}

/// Where a server keeps its files. Field order is removal order.
#[derive(Debug)]
pub(super) struct Home {
    /// The data directory of the cluster.
    pub(super) cluster: PathBuf,
    /// Where the server puts its socket.
    pub(super) sockets: PathBuf,
    _socket_scratch: Option<Scratch>,
    _scratch: Option<Scratch>,
    _kept: Option<Lock>,
}

impl Home {
    /// A home that is gone with this value. Without need of durability it lies in memory, if there is room.
    pub(super) fn temporary(durable: bool) -> Result<Self, EmbeddedError> {
        let memory = Path::new("/dev/shm");
        // Both: what a killed process left in memory may be the reason that there is no room now.
        for base in [memory, &env::temp_dir()] {
            sweep(base);
        }
        let in_memory = !durable && sys::free_bytes(memory).is_some_and(|free| free >= MEMORY_ROOM);
        let base = if in_memory { memory.to_owned() } else { env::temp_dir() };
        Self::temporary_in(&base)
    }

    pub(super) fn temporary_in(base: &Path) -> Result<Self, EmbeddedError> {
        let scratch = Scratch::create(base)?;
        let cluster = scratch.directory.join("data");
        let sockets = scratch.directory.join("socket");
        Ok(Self { cluster, sockets, _socket_scratch: None, _scratch: Some(scratch), _kept: None })
    }

    /// The home of the cluster of this major in a directory that stays, held against a second process (EMB-4).
    pub(super) fn kept(directory: &Path, major: u32) -> Result<Self, EmbeddedError> {
        let directory = std::path::absolute(directory).map_err(EmbeddedError::at(directory))?;
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent).map_err(EmbeddedError::at(parent))?;
        }
        make_private(&directory)?;
        let lock = Lock::take(&directory.join("agent.lock"), &directory)?;
        let cluster = directory.join(major.to_string());
        let sockets = directory.join("socket");
        Ok(Self { cluster, sockets, _socket_scratch: None, _scratch: None, _kept: Some(lock) })
    }

    /// Makes the directories usable for whoever runs the server.
    pub(super) fn prepare_for(&mut self, run_as: RunAs) -> Result<(), EmbeddedError> {
        if self.sockets.as_os_str().len() > SOCKET_DIRECTORY_BYTES {
            let scratch = short_scratch()?;
            self.sockets = scratch.directory.join("s");
            self._socket_scratch = Some(scratch);
        }
        make_private(&self.sockets)?;
        if let Some(account) = run_as.owner() {
            chown(&self.sockets, Some(account.uid), Some(account.gid))
                .map_err(EmbeddedError::at(&self.sockets))?;
            for parent in [self.cluster.parent(), self.sockets.parent()].into_iter().flatten() {
                make_searchable(parent)?;
            }
        }
        Ok(())
    }
}

/// A place for the socket alone, when the data directory lies too deep.
fn short_scratch() -> Result<Scratch, EmbeddedError> {
    let fits =
        |base: &PathBuf| base.as_os_str().len() + PREFIX.len() + 32 + "//s".len() <= SOCKET_DIRECTORY_BYTES;
    let base = [env::temp_dir(), PathBuf::from("/tmp")].into_iter().find(fits);
    Scratch::create(&base.ok_or(EmbeddedError::PathTooLong)?)
}

/// A directory for its owner only; one that exists keeps its rights.
pub(super) fn make_private(directory: &Path) -> Result<(), EmbeddedError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(EmbeddedError::at(directory))
}

/// Lets another account pass through, without letting it look.
fn make_searchable(directory: &Path) -> Result<(), EmbeddedError> {
    let mode = fs::metadata(directory).map_err(EmbeddedError::at(directory))?.permissions().mode();
    fs::set_permissions(directory, fs::Permissions::from_mode(mode | 0o011))
        .map_err(EmbeddedError::at(directory))
}
