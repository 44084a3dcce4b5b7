//! A cluster's life: made by `initdb`, run by `postgres`, stopped with its data safe.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::account::RunAs;
use super::binaries::ServerBinaries;
use super::error::{EmbeddedError, last_words};
use super::home::{Home, make_private};
use super::sys::{self, Shutdown};

/// The role that owns everything in an embedded server.
pub(super) const USER: &str = "app";
/// Part of the socket's file name; no network port is opened.
pub(super) const PORT: u16 = 5432;

/// A recovery after a crash is included.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// For a server whose service was killed: to notice, on a busy machine too; to write its data, and for its last backends
/// to go.
const NOTICE_LIMIT: Duration = Duration::from_secs(6);
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(5);

/// Makes the cluster if there is none: in a sibling directory that is renamed, so that a killed start leaves no half
/// of one. The caller holds the home, so siblings of earlier starts are dead.
pub(super) fn initialise(
    binaries: &ServerBinaries,
    run_as: RunAs,
    cluster: &Path,
    durable: bool,
) -> Result<(), EmbeddedError> {
    if cluster.join("PG_VERSION").is_file() {
        return Ok(());
    }
    let unfinished = cluster.with_extension("unfinished");
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(EmbeddedError::at(&unfinished)(error));
        }
        _ => {}
    }
    make_private(&unfinished)?;
    if let Some(account) = run_as.owner() {
        chown(&unfinished, Some(account.uid), Some(account.gid)).map_err(EmbeddedError::at(&unfinished))?;
    }
    let made = run_initdb(binaries, run_as, &unfinished, durable)
        .and_then(|()| fs::rename(&unfinished, cluster).map_err(EmbeddedError::at(cluster)));
    if made.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    made
}

/// The locale `C` makes the order of texts independent of the machine. Everyone who reaches the socket is trusted:
/// its directory is open to the owner only.
fn run_initdb(
    binaries: &ServerBinaries,
    run_as: RunAs,
    target: &Path,
    durable: bool,
) -> Result<(), EmbeddedError> {
    let mut command = run_as.command(&binaries.program("initdb"), true);
    command.arg("--pgdata").arg(target);
    command.args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"]);
    if !durable {
        command.arg("--no-sync");
    }
    let output = command.output().map_err(EmbeddedError::System)?;
    if output.status.success() {
        return Ok(());
    }
    let message = last_words(&String::from_utf8_lossy(&output.stderr));
    Err(EmbeddedError::Initialise { directory: target.to_owned(), message })
}

/// A running server and the means to stop it. The child ends with the thread that started it.
#[derive(Debug)]
pub(super) struct Postmaster {
    child: Child,
}

/// What came of one attempt to start.
enum Launch {
    Ready(Child),
    /// Something of an earlier server is still there.
    PredecessorInTheWay(String),
    Failed(String),
}

impl Postmaster {
    /// Starts the server of a cluster and waits until it takes connections.
    pub(super) fn start(
        binaries: &ServerBinaries,
        run_as: RunAs,
        home: &Home,
        settings: &[(String, String)],
    ) -> Result<Self, EmbeddedError> {
        let failed = |message| EmbeddedError::Start { directory: home.cluster.clone(), message };
        let give_up = Instant::now() + PREDECESSOR_LIMIT;
        loop {
            clear_leftover(home)?;
            match launch(binaries, run_as, home, settings).map_err(EmbeddedError::System)? {
                Launch::Ready(child) => return Ok(Self { child }),
                Launch::Failed(message) => return Err(failed(message)),
                Launch::PredecessorInTheWay(message) if Instant::now() >= give_up => {
                    return Err(failed(message));
                }
                Launch::PredecessorInTheWay(_) => sleep(Duration::from_millis(100)),
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True when the server does not run any longer though nobody has stopped it.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Disconnects everyone and waits for the data to be safe; harsher when that takes too long.
    pub(super) fn stop(&mut self) {
        if self.has_ended() {
            // Its number may belong to another process by now.
            return;
        }
        for how in [Shutdown::Fast, Shutdown::Immediate] {
            sys::ask_to_stop(self.pid(), how);
            if self.wait(STOP_LIMIT) {
                return;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait(&mut self, limit: Duration) -> bool {
        let give_up = Instant::now() + limit;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= give_up {
                return false;
            }
            sleep(POLL);
        }
        true
    }
}

fn launch(
    binaries: &ServerBinaries,
    run_as: RunAs,
    home: &Home,
    settings: &[(String, String)],
) -> io::Result<Launch> {
    let log_path = home.cluster.join("server.log");
    let log = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&log_path)?;
    let mut command = run_as.command(&binaries.program("postgres"), true);
    command.arg("-D").arg(&home.cluster).args(["-p", &PORT.to_string()]);
    command.arg("-c").arg(format!("unix_socket_directories={}", quoted(&home.sockets)));
    for (name, value) in settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    // Last, so that no setting opens a network address (EMB-5).
    command.args(["-c", "listen_addresses="]);
    let mut child = command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null()).spawn()?;
    let ready_limit = Instant::now() + READY_LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(judge(&status, &fs::read_to_string(&log_path).unwrap_or_default()));
        }
        if PidFile::read(&home.cluster).is_some_and(|file| file.pid == child.id() && file.ready) {
            return Ok(Launch::Ready(child));
        }
        if Instant::now() >= ready_limit {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Launch::Failed(format!("not ready within {} s", READY_LIMIT.as_secs())));
        }
        sleep(POLL);
    }
}

/// The setting is a list: commas and quotes in a path need quoting.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

fn judge(status: &ExitStatus, log: &str) -> Launch {
    let message = format!("{status}: {}", last_words(log));
    let signs = ["\"postmaster.pid\" already exists", "is still in use"];
    if signs.iter().any(|sign| log.contains(sign)) {
        Launch::PredecessorInTheWay(message)
    } else {
        Launch::Failed(message)
    }
}

/// What `postmaster.pid` says.
struct PidFile {
    pid: u32,
    ready: bool,
    sockets: PathBuf,
}

impl PidFile {
    fn path(cluster: &Path) -> PathBuf {
        cluster.join("postmaster.pid")
    }

    /// The first line is the process, the fifth the directory of its socket, the eighth its state.
    fn read(cluster: &Path) -> Option<Self> {
        let text = fs::read_to_string(Self::path(cluster)).ok()?;
        let line = |number: usize| text.lines().nth(number - 1).map_or("", str::trim);
        let (pid, sockets) = (line(1).parse().ok()?, PathBuf::from(line(5)));
        Some(Self { pid, ready: line(8) == "ready", sockets })
    }
}

/// The server that runs in a cluster, if one does. A zombie, or another program that got the number of a dead
/// server, does not count.
fn running_in(cluster: &Path) -> Option<u32> {
    let pid = PidFile::read(cluster)?.pid;
    let works_there = match fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(directory) => fs::canonicalize(cluster).is_ok_and(|cluster| cluster == directory),
        Err(_) if Path::new("/proc/self/cwd").exists() => false,
        Err(_) => sys::process_exists(pid),
    };
    works_there.then_some(pid)
}

/// Where the server that runs in a cluster takes connections; `None` when none does.
pub(super) fn sockets_of(cluster: &Path) -> Option<PathBuf> {
    running_in(cluster)?;
    PidFile::read(cluster).filter(|file| file.ready && file.sockets.is_absolute()).map(|file| file.sockets)
}

/// Makes way for a new server. One that outlived its service is on its way out and gets time; one that somebody runs
/// by hand stays, and we do not start. Lock files that no server stands behind go: with a zombie's or a reused number
/// in them, the new server would refuse for ever. (It still refuses while backends of the old one live.)
fn clear_leftover(home: &Home) -> Result<(), EmbeddedError> {
    let begin = Instant::now();
    while let Some(pid) = running_in(&home.cluster) {
        let is_leaving = PidFile::read(&home.cluster).is_none_or(|file| !file.ready);
        if begin.elapsed() >= if is_leaving { PREDECESSOR_LIMIT } else { NOTICE_LIMIT } {
            return Err(EmbeddedError::InUse { directory: home.cluster.clone(), holder: pid.to_string() });
        }
        sleep(POLL);
    }
    for file in [PidFile::path(&home.cluster), home.sockets.join(format!(".s.PGSQL.{PORT}.lock"))] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(EmbeddedError::at(&file)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Ends a server whose service is dead and whose directory is about to be removed.
pub(super) fn end_orphan(cluster: &Path) {
    let Some(pid) = running_in(cluster) else { return };
    sys::ask_to_stop(pid, Shutdown::Immediate);
    let give_up = Instant::now() + PREDECESSOR_LIMIT;
    while running_in(cluster).is_some() && Instant::now() < give_up {
        sleep(POLL);
    }
}
