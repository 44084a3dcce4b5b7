//! `plugins.json`: the tenant's plugins (05 PLG-1 to PLG-3). This version loads none, so each named one is a fault: its
//! tenant must not believe that its tools are active.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::tenant_file;
use crate::domain::visible;

const FILE: &str = "plugins.json";

/// Why the plugins cannot be loaded. The message begins `invalid plugins (<dir>): ` (CLI-61).
#[derive(Debug, thiserror::Error)]
#[error("invalid plugins ({}): {problem}", dir.display())]
pub struct PluginsError {
    /// The directory of the tenant files.
    pub dir: PathBuf,
    /// What is wrong.
    pub problem: PluginsProblem,
}

/// What is wrong with `plugins.json`.
#[derive(Debug)]
pub enum PluginsProblem {
    /// The file is there and cannot be read: check its permissions.
    Unreadable(std::io::Error),
    /// Not JSON, or not `{"plugins": ["name"]}`: correct it at the place that is named.
    Shape(serde_json::Error),
    /// Plugins that this version cannot load: remove them.
    Unknown(Vec<String>),
}

impl fmt::Display for PluginsProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => write!(out, "{FILE} cannot be read: {reason}"),
            Self::Shape(reason) => {
                write!(
                    out,
                    "{FILE} must have the form {{\"plugins\": [\"name\"]}}: {}",
                    visible(&reason.to_string())
                )
            }
            Self::Unknown(names) => write!(
                out,
                "{FILE} names {}: this version loads no plugins, packages made for the reference implementation \
                 included; remove the entries, or the file, to start without their tools",
                visible(&names.join(", "))
            ),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginsFile {
    plugins: Vec<String>,
}

/// Reads `plugins.json` of the directory, once, at boot (PLG-2). Without the file there are no plugins (PLG-1).
///
/// # Errors
/// When the file cannot be read, has another shape, or names a plugin (PLG-3).
pub fn check_plugins(dir: &Path) -> Result<(), PluginsError> {
    let fault = |problem| Err(PluginsError { dir: dir.to_owned(), problem });
    let bytes = match tenant_file::read(&dir.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return fault(PluginsProblem::Unreadable(error)),
    };
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match serde_json::from_slice::<PluginsFile>(json) {
        Ok(file) if file.plugins.is_empty() => Ok(()),
        Ok(file) => fault(PluginsProblem::Unknown(file.plugins)),
        Err(error) => fault(PluginsProblem::Shape(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_dir::TestDir;

    /// PLG-1, PLG-3, CLI-61: no file and an empty list are no plugins; everything else is refused by name.
    #[test]
    fn a_plugin_is_never_skipped_in_silence() {
        let dir = TestDir::new();
        check_plugins(dir.path()).unwrap();
        for sound in [r#"{"plugins": []}"#, "\u{feff}{\"plugins\":[]}"] {
            dir.write("plugins.json", sound);
            check_plugins(dir.path()).unwrap();
        }
        for (broken, word) in [
            (r#"{"plugins": ["agent-plugin-harbor-crm"]}"#, "agent-plugin-harbor-crm"),
            (r#"{"plugins": [5]}"#, "line 1"),
            (r#"{"plugins": [], "more": 1}"#, "`more`"),
            ("{}", "`plugins`"),
            ("[]", "line 1"),
            ("{\"plugins\": [],}", "line 1"),
            ("", "line 1"),
        ] {
            dir.write("plugins.json", broken);
            let message = check_plugins(dir.path()).unwrap_err().to_string();
            assert!(
                message.starts_with("invalid plugins (") && message.contains("plugins.json"),
                "{message}"
            );
            assert!(message.contains(word), "{broken}: {message}");
        }
    }
}
