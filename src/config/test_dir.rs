//! A directory of its own for a test, removed at its end.

use std::path::{Path, PathBuf};

/// Removed with its contents when dropped.
#[derive(Debug)]
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    /// A new empty directory.
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("manychat-agent-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The content of a file as text.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
