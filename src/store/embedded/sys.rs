//! The calls of the operating system that the standard library lacks: every `unsafe` block of the room.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What a Postgres server understands as a request to stop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shutdown {
    /// Disconnects the clients, writes a checkpoint and leaves.
    Fast,
    /// Leaves at once; the next start recovers.
    Immediate,
}

impl Shutdown {
    const fn signal(self) -> libc::c_int {
        match self {
            Self::Fast => libc::SIGINT,
            Self::Immediate => libc::SIGQUIT,
        }
    }
}

/// Whether this process runs with all rights.
pub(super) fn is_root() -> bool {
    // SAFETY: takes no argument, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The user this process creates files as.
pub(super) fn user_id() -> u32 {
    // SAFETY: takes no argument, cannot fail.
    unsafe { libc::geteuid() }
}

/// Asks a server to stop. A process that is gone already is not an error.
pub(super) fn ask_to_stop(pid: u32, how: Shutdown) {
    send(pid, how.signal());
}

/// Whether a process with this id exists, a zombie included.
pub(super) fn process_exists(pid: u32) -> bool {
    send(pid, 0) || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

fn send(pid: u32, signal: libc::c_int) -> bool {
    // Zero and negative numbers address whole process groups.
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    // SAFETY: plain numbers; the kernel checks them.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Bytes that this user may still write on the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut room = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a NUL-terminated string and `room` is writable for one `statvfs`; both outlive the call.
    let result = unsafe { libc::statvfs(path.as_ptr(), room.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has filled the structure.
    let room = unsafe { room.assume_init() };
    #[allow(clippy::useless_conversion, reason = "the widths of the fields differ between platforms")]
    Some(u64::from(room.f_bavail).saturating_mul(u64::from(room.f_frsize)))
}

/// Registers `action` to run when the process leaves through `exit`, as a test harness does.
pub(super) fn at_exit(action: extern "C" fn()) -> bool {
    // SAFETY: `action` is a function of the program, valid as long as the process runs.
    unsafe { libc::atexit(action) == 0 }
}

/// The rights of a process in a user namespace of its own: it sees itself as `uid`:`gid`, while its files stay those
/// of the root user outside.
pub(super) struct NamespaceMap {
    uid_map: String,
    gid_map: String,
}

impl NamespaceMap {
    pub(super) fn new(uid: u32, gid: u32) -> Self {
        Self { uid_map: format!("{uid} 0 1"), gid_map: format!("{gid} 0 1") }
    }

    /// Runs in the child between fork and exec. Nothing here allocates: the paths are short enough for the standard
    /// library to pass them from the stack.
    #[cfg(target_os = "linux")]
    fn enter(&self) -> io::Result<()> {
        // SAFETY: a plain number; the child has one thread, as the call demands.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let write = |path, text: &str| OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &self.uid_map)?;
        write("/proc/self/gid_map", &self.gid_map)
    }

    #[cfg(not(target_os = "linux"))]
    fn enter(&self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// Prepares what the child does before it becomes `command`'s program: enter the namespace, if one is given, and ask
/// for its own end together with the thread that starts it.
pub(super) fn before_exec(command: &mut Command, namespace: Option<NamespaceMap>, ends_with_us: bool) {
    let parent = std::process::id();
    // SAFETY: the closure runs in the forked child and only makes system calls: no allocation, no lock.
    unsafe {
        command.pre_exec(move || {
            if let Some(map) = &namespace {
                map.enter()?;
            }
            if ends_with_us {
                // After the change of rights, which would clear it.
                end_with_parent(parent)?;
            }
            Ok(())
        });
    }
}

/// A server that outlived a killed service would keep its directory busy for ever (EMB-5). The kernel watches the
/// *thread* that started the child.
#[cfg(target_os = "linux")]
fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, Shutdown::Fast.signal()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes no argument, cannot fail.
    let now = unsafe { libc::getppid() };
    // The parent may have ended before the request was in place.
    if u32::try_from(now) == Ok(parent) { Ok(()) } else { Err(io::Error::from(io::ErrorKind::BrokenPipe)) }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_parent: u32) -> io::Result<()> {
    Ok(())
}
