//! Reads one file of the tenant's directory, without ever waiting for it and without reading more than fits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest file, in bytes: far more than any model's prompt holds.
const MOST: u64 = 8 * 1024 * 1024;

/// The bytes of a regular file, also behind links. A pipe would keep a reload waiting for ever (RLD-3), a device would
/// be read until memory ends.
///
/// # Errors
/// As the system says; `InvalidInput` for what is no regular file, `FileTooLarge` for more than 8 MiB.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened, because opening a device can have effects; and after it, because it may be another by then.
    check(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    contents(&file)
}

fn check(metadata: &fs::Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if metadata.len() > MOST { Err(too_large()) } else { Ok(()) }
}

/// The length that the system names may be wrong, as it is under /proc.
fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, "it is larger than 8 MiB")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;
    use crate::config::test_dir::TestDir;

    /// RLD-3: what would block or never end is refused at once; links are followed.
    #[test]
    fn only_regular_files_of_a_sane_size_are_read() {
        let dir = TestDir::new();
        let at = |name: &str| dir.path().join(name);
        dir.write("plain", "words");
        symlink(at("plain"), at("link")).unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        assert_eq!(read(&at("link")).unwrap(), b"words");
        for odd in ["endless", "pipe", "."] {
            assert_eq!(read(&at(odd)).unwrap_err().to_string(), "it is not a regular file", "{odd}");
        }
        assert_eq!(read(&at("nothing")).unwrap_err().kind(), ErrorKind::NotFound);
        let file = File::create(at("large")).unwrap();
        file.set_len(MOST).unwrap();
        assert_eq!(read(&at("large")).unwrap().len() as u64, MOST);
        file.set_len(MOST + 1).unwrap();
        assert_eq!(read(&at("large")).unwrap_err().to_string(), "it is larger than 8 MiB");
    }
}
