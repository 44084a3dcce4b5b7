//! The demo tenant and the offline `.env` (05 sections 2.4 and 10), embedded in the binary.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::files::{CATALOG_FILE, PROMPT_FILE, RULES_FILE, TOOLS_FILE};
use super::tenant::TenantFiles;
use super::{Environment, ReservedNames, Tenant, TenantError};

/// `.env.example`.
pub const ENV_EXAMPLE: &str = include_str!("../../.env.example");
/// `config/prompt.md.example`.
pub const PROMPT: &str = include_str!("../../config/prompt.md.example");
/// What the example holds as a hint for the person who edits it (PRM-2), and what the demo tenant has there: nobody edits
/// a demo before its first start, and the hint would warn at each (PRM-3).
const NAME_HINT: (&str, &str) = ("{{businessName}}", "Larkspur Woodshop");

/// The demo tenant's `prompt.md`.
#[must_use]
pub fn prompt() -> String {
    PROMPT.replace(NAME_HINT.0, NAME_HINT.1)
}

/// `config/catalog.json.example`.
pub const CATALOG: &str = include_str!("../../config/catalog.json.example");
/// `config/rules.json.example`.
pub const RULES: &str = include_str!("../../config/rules.json.example");
/// `config/tools.json.example`; opt-in, bootstrapping leaves it out (DEMO-2).
pub const TOOLS: &str = include_str!("../../config/tools.json.example");

/// What bootstrapping did with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// For example `config/rules.json`: relative to the directory that was prepared, unless `CONFIG_DIR` is absolute.
    pub path: PathBuf,
    /// Written, or left as it was.
    pub outcome: FileOutcome,
}

/// Whether a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOutcome {
    /// It was not there.
    Created,
    /// It was there and was not touched.
    Kept,
}

impl fmt::Display for FileReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            FileOutcome::Created => "created",
            FileOutcome::Kept => "kept   ",
        };
        write!(out, "{word}  {}", self.path.display())
    }
}

/// Why the demo tenant could not be written.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A line that ENV-32 replaces is no longer in the example: put it back there.
    #[error(".env.example no longer holds the line `{line}`, so no offline .env can be made from it")]
    LineGone {
        /// The line as it was.
        line: &'static str,
    },
    /// The operating system gave no random bytes; nothing was written.
    #[error("no random bytes for a secret: {0}")]
    NoRandomBytes(io::Error),
    /// A file or directory could not be written: check the path and its permissions. What was created before
    /// stays and is kept by the next run.
    #[error("{} cannot be written: {reason}", path.display())]
    NotWritten {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
}

/// Prepares `dir` for development (CLI-96): persona, catalog and rules of the demo tenant in `config_dir`, which is
/// [`config_dir`]'s and relative to `dir`, and an offline `.env` with a fresh secret, readable by its owner only. Never
/// overwrites a file.
///
/// # Errors
/// See [`DemoError`]. The `.env` is composed before the first file is written.
pub fn write_missing(dir: &Path, config_dir: &Path) -> Result<Vec<FileReport>, DemoError> {
    let secret = fresh_secret().map_err(DemoError::NoRandomBytes)?;
    let env = offline_env(ENV_EXAMPLE, &secret)?;
    let prompt = prompt();
    let config = dir.join(config_dir);
    let made = DirBuilder::new().recursive(true).create(&config);
    made.map_err(|reason| DemoError::NotWritten { path: config, reason })?;
    let files = [
        (config_dir.join(PROMPT_FILE), prompt.as_str(), TENANT_FILE_MODE),
        (config_dir.join(CATALOG_FILE), CATALOG, TENANT_FILE_MODE),
        (config_dir.join(RULES_FILE), RULES, TENANT_FILE_MODE),
        (PathBuf::from(".env"), env.as_str(), SECRET_FILE_MODE),
    ];
    files.into_iter().map(|(path, content, mode)| write_if_missing(dir, path, content, mode)).collect()
}

/// Writes the demo tenant's `tools.json` beside the others, where there is none.
///
/// # Errors
/// [`DemoError::NotWritten`].
pub fn write_missing_tools(dir: &Path, config_dir: &Path) -> Result<FileReport, DemoError> {
    write_if_missing(dir, config_dir.join(TOOLS_FILE), TOOLS, TENANT_FILE_MODE)
}

/// Where every command looks for the tenant files, for one that runs before the variables are checked (CFG-1, CFG-2): what
/// is written anywhere else would never be found. A blank `CONFIG_DIR`, which the check refuses, counts as unset here.
#[must_use]
pub fn config_dir(environment: &Environment) -> PathBuf {
    let named = environment.variables.get("CONFIG_DIR").filter(|dir| !dir.trim().is_empty());
    named.map_or_else(|| PathBuf::from("config"), PathBuf::from)
}

/// The demo tenant with all four files, as tests and the built-in suite use it (DEMO-1, GOLD-0).
///
/// # Errors
/// Only when the embedded examples are faulty, which a test rules out (DEMO-4).
pub fn tenant() -> Result<Tenant, TenantError> {
    let files = TenantFiles::given(&prompt(), CATALOG, RULES, Some(TOOLS));
    let checked = files.check(&ReservedNames::default());
    let checked = checked.map_err(|problem| TenantError { dir: PathBuf::from("demo tenant"), problem });
    checked.map(|(tenant, _)| tenant)
}

const TENANT_FILE_MODE: u32 = 0o644;
const SECRET_FILE_MODE: u32 = 0o600;

/// Lines of the example and what stands in their place offline (ENV-32, DEC-34).
fn replacements(secret: &str) -> [(&'static str, String); 4] {
    [
        (
            "MANYCHAT_SHARED_SECRET=change-me-to-a-long-random-string",
            format!("MANYCHAT_SHARED_SECRET={secret}"),
        ),
        ("AGENT_MODEL=anthropic:claude-haiku-4-5", "AGENT_MODEL=mock:demo".to_owned()),
        (
            "DATABASE_URL=postgres://agent:agent@localhost:5432/agent",
            "DATABASE_URL=embedded:.data/postgres".to_owned(),
        ),
        ("CONTACT_TOKENS_ENFORCED=true", "CONTACT_TOKENS_ENFORCED=false".to_owned()),
    ]
}

/// The offline `.env`. Whole lines are replaced, so a line that only looks similar is never taken for one.
fn offline_env(example: &str, secret: &str) -> Result<String, DemoError> {
    let mut lines: Vec<String> = example.lines().map(str::to_owned).collect();
    for (line, replacement) in replacements(secret) {
        let found = lines.iter_mut().find(|candidate| *candidate == line);
        *found.ok_or(DemoError::LineGone { line })? = replacement;
    }
    Ok(lines.join("\n") + "\n")
}

/// 32 bytes from the operating system, in hex.
fn fresh_secret() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Creates the file only if nothing has its name, in one step of the file system.
fn write_if_missing(dir: &Path, name: PathBuf, content: &str, mode: u32) -> Result<FileReport, DemoError> {
    let path = dir.join(&name);
    let outcome = match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
        Ok(mut file) => match file.write_all(content.as_bytes()) {
            Ok(()) => FileOutcome::Created,
            Err(reason) => {
                // Half a file would be kept by the next run.
                let _ = std::fs::remove_file(&path);
                return Err(DemoError::NotWritten { path, reason });
            }
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => FileOutcome::Kept,
        Err(reason) => return Err(DemoError::NotWritten { path, reason }),
    };
    Ok(FileReport { path: name, outcome })
}

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
