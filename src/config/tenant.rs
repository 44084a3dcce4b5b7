//! The four tenant files as one immutable snapshot, loaded whole or not at all (LOAD-1).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files::{self, CATALOG_FILE, Fault, PROMPT_FILE, Parts, RULES_FILE, Report, Spot, TOOLS_FILE};
use super::{Catalog, ManyChatSettings, Rules, Tools, Warning, tenant_file};

/// One loaded configuration. A turn uses one snapshot from start to end (RLD-8).
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// `prompt.md`, exactly as written (PRM-2).
    pub prompt: String,
    /// `catalog.json`.
    pub catalog: Catalog,
    /// `rules.json`.
    pub rules: Rules,
    /// `tools.json`; `None` when there is no such file.
    pub tools: Option<Tools>,
    /// Short content hash of each file that was read, for the log (GAP-CFG-7).
    pub hashes: Vec<FileHash>,
}

/// Name of a tenant file and the first 12 hex digits of its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHash {
    /// For example `rules.json`.
    pub file: &'static str,
    /// 12 lower-case hex digits.
    pub hash: String,
}

impl FileHash {
    fn of(file: &'static str, content: &[u8]) -> Self {
        let digest = Sha256::digest(content);
        Self { file, hash: digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// Names in the tenant's ManyChat account that the service uses for its own delivery (ENV-18). The tenant files
/// must not use them (XCK-1 to XCK-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedNames {
    /// `MANYCHAT_REPLY_FLOW_NS`.
    pub reply_flow_ns: Option<String>,
    /// `MANYCHAT_REPLY_FIELD`.
    pub reply_field: String,
    /// `MANYCHAT_TOKEN_FIELD`.
    pub token_field: String,
}

impl Default for ReservedNames {
    /// The names that hold when no variable is set.
    fn default() -> Self {
        Self { reply_flow_ns: None, reply_field: "ai_message".to_owned(), token_field: "ai_token".to_owned() }
    }
}

impl From<&ManyChatSettings> for ReservedNames {
    fn from(settings: &ManyChatSettings) -> Self {
        Self {
            reply_flow_ns: settings.reply_flow_ns.clone(),
            reply_field: settings.reply_field.clone(),
            token_field: settings.token_field.clone(),
        }
    }
}

impl ReservedNames {
    /// The variables whose value is exactly this ManyChat field.
    pub(super) fn variables_of_field(&self, field: &str) -> impl Iterator<Item = &'static str> {
        let reply = (self.reply_field == field).then_some("MANYCHAT_REPLY_FIELD");
        let token = (self.token_field == field).then_some("MANYCHAT_TOKEN_FIELD");
        reply.into_iter().chain(token)
    }
}

/// Why the tenant files of a directory were refused. The message begins `invalid config (<dir>): ` (CLI-4).
#[derive(Debug, thiserror::Error)]
#[error("invalid config ({}): {problem}", dir.display())]
pub struct TenantError {
    /// The directory that was read.
    pub dir: PathBuf,
    /// What is wrong with the first file that failed (LOAD-2).
    pub problem: TenantProblem,
}

/// What is wrong with a tenant file (LOAD-3). Each variant names the file; the cure is to repair it.
#[derive(Debug, thiserror::Error)]
pub enum TenantProblem {
    /// A required file is not there: make it, for instance from its example.
    #[error("{kind} is missing: {} does not exist{}; copy {file}.example and edit it, or run `agent bootstrap` for the demo tenant's", path.display(), folder_note(path))]
    Missing {
        /// For example `the catalog`.
        kind: &'static str,
        /// For example `catalog.json`.
        file: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is there and cannot be read: check its permissions, its kind and its size (at most 8 MiB).
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// `prompt.md` holds bytes that are no UTF-8 text (PRM-2): save it as UTF-8.
    #[error("{} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The file is not JSON; comments and trailing commas are refused too (LOAD-6).
    #[error("{} is not valid JSON: {instead}{reason}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// What the file is instead, when that says more than the parser does; with a colon behind it.
        instead: &'static str,
        /// The parser's reason with line and column.
        reason: serde_json::Error,
    },
    /// The file has keys of an earlier shape (LOAD-20): rename them. `agent upgrade`, which the rule names, is not built.
    #[error(
        "{file} has keys of an earlier version: {}; run `agent upgrade` to rename them: this version has no such command \
         yet, so rename them by hand (config/README.md, How the files are read)",
        keys.join(", ")
    )]
    EarlierShape {
        /// For example `catalog.json`.
        file: &'static str,
        /// Each key with its place.
        keys: Vec<String>,
    },
    /// Values break a rule of their file, or of the files together.
    #[error("{}", FaultList(faults))]
    Invalid {
        /// All faults of the file, or of the cross checks.
        faults: Vec<Fault>,
    },
}

/// A folder that is not there at all is most likely named wrongly (CFG-1).
fn folder_note(path: &Path) -> &'static str {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            ", and neither does its folder, which CONFIG_DIR names (`config` when unset)"
        }
        _ => "",
    }
}

/// `Invalid <file>` and one line per fault, file by file.
struct FaultList<'a>(&'a [Fault]);

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut file = None;
        for fault in self.0 {
            if file != Some(fault.file) {
                let line_break = if file.is_some() { "\n" } else { "" };
                write!(out, "{line_break}Invalid {}", fault.file)?;
                file = Some(fault.file);
            }
            write!(out, "\n  {fault}")?;
        }
        Ok(())
    }
}

impl Tenant {
    /// Reads and checks the four files of `dir`. `tools.json` may be missing: no tool is offered then.
    ///
    /// Reads from the disk: call it at boot, in a command, or on a thread that may block.
    ///
    /// # Errors
    /// The first file that fails ends the load (LOAD-2); all faults of that file are in the error.
    pub fn load(dir: &Path, reserved: &ReservedNames) -> Result<(Self, Vec<Warning>), TenantError> {
        TenantFiles::read(dir).check(reserved).map_err(|problem| TenantError { dir: dir.to_owned(), problem })
    }
}

/// The files as bytes, all read before the first is looked at, so that an edit during the load cannot produce a
/// mixture that passes by luck (RLD-12).
#[derive(Debug)]
pub(super) struct TenantFiles {
    prompt: RawFile,
    catalog: RawFile,
    rules: RawFile,
    tools: RawFile,
}

#[derive(Debug)]
struct RawFile {
    name: &'static str,
    path: PathBuf,
    content: io::Result<Vec<u8>>,
}

impl RawFile {
    fn read(dir: &Path, name: &'static str) -> Self {
        let path = dir.join(name);
        let content = tenant_file::read(&path);
        Self { name, path, content }
    }

    fn given(name: &'static str, content: Option<&str>) -> Self {
        let content = content.map(|content| content.as_bytes().to_vec());
        let content = content.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        Self { name, path: PathBuf::from(name), content }
    }

    /// The bytes of a file that must be there.
    fn required(self, kind: &'static str) -> Result<(PathBuf, Vec<u8>), TenantProblem> {
        let Self { name, path, content } = self;
        match content {
            Ok(content) => Ok((path, content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(TenantProblem::Missing { kind, file: name, path })
            }
            Err(reason) => Err(TenantProblem::Unreadable { path, reason }),
        }
    }

    /// As [`Self::required`]; `None` when there is no such file.
    fn optional(self, kind: &'static str) -> Result<Option<(PathBuf, Vec<u8>)>, TenantProblem> {
        match self.required(kind) {
            Err(TenantProblem::Missing { .. }) => Ok(None),
            other => other.map(Some),
        }
    }
}

type Parser<T> = fn(&Spot<'_>, &mut Report) -> Option<T>;

/// What a load has collected besides the values.
#[derive(Default)]
struct Notes {
    warnings: Vec<Warning>,
    hashes: Vec<FileHash>,
}

impl TenantFiles {
    pub(super) fn read(dir: &Path) -> Self {
        Self {
            prompt: RawFile::read(dir, PROMPT_FILE),
            catalog: RawFile::read(dir, CATALOG_FILE),
            rules: RawFile::read(dir, RULES_FILE),
            tools: RawFile::read(dir, TOOLS_FILE),
        }
    }

    /// The files from memory; for the demo tenant.
    pub(super) fn given(prompt: &str, catalog: &str, rules: &str, tools: Option<&str>) -> Self {
        Self {
            prompt: RawFile::given(PROMPT_FILE, Some(prompt)),
            catalog: RawFile::given(CATALOG_FILE, Some(catalog)),
            rules: RawFile::given(RULES_FILE, Some(rules)),
            tools: RawFile::given(TOOLS_FILE, tools),
        }
    }

    /// The order of LOAD-2: is there a persona, facts, rules, tools, do they fit together, the persona's text.
    pub(super) fn check(self, reserved: &ReservedNames) -> Result<(Tenant, Vec<Warning>), TenantProblem> {
        let mut notes = Notes::default();
        let (prompt_path, prompt) = self.prompt.required("the persona")?;
        notes.hashes.push(FileHash::of(PROMPT_FILE, &prompt));
        let catalog = self.catalog.required("the catalog")?;
        let catalog = notes.parse(CATALOG_FILE, catalog, files::catalog)?;
        let rules = self.rules.required("the rules file")?;
        let rules = notes.parse(RULES_FILE, rules, files::rules)?;
        let tools = self.tools.optional("the tools file")?;
        let tools = tools.map(|tools| notes.parse(TOOLS_FILE, tools, files::tools)).transpose()?;
        notes.cross_check(Parts { catalog: &catalog, rules: &rules, tools: tools.as_ref(), reserved })?;
        let prompt = String::from_utf8(prompt).map_err(|_| TenantProblem::NotText { path: prompt_path })?;
        notes.warnings.extend(files::prompt_hints(&prompt));
        Ok((Tenant { prompt, catalog, rules, tools, hashes: notes.hashes }, notes.warnings))
    }
}

impl Notes {
    /// The steps of LOAD-3 after "exists".
    fn parse<T>(
        &mut self,
        file: &'static str,
        (path, content): (PathBuf, Vec<u8>),
        parser: Parser<T>,
    ) -> Result<T, TenantProblem> {
        self.hashes.push(FileHash::of(file, &content));
        let root = serde_json::from_slice(without_byte_order_mark(&content))
            .map_err(|reason| TenantProblem::NotJson { path, instead: instead_of_json(&content), reason })?;
        let keys = files::earlier_keys(file, &root);
        if !keys.is_empty() {
            return Err(TenantProblem::EarlierShape { file, keys });
        }
        let mut report = Report::new(file);
        let value = parser(&Spot::root(&root), &mut report);
        if value.is_none() && report.faults.is_empty() {
            report.fault("", "cannot be read");
        }
        self.warnings.append(&mut report.warnings);
        match value {
            Some(value) if report.faults.is_empty() => Ok(value),
            _ => Err(TenantProblem::Invalid { faults: report.faults }),
        }
    }

    fn cross_check(&mut self, parts: Parts<'_>) -> Result<(), TenantProblem> {
        let (faults, warnings) = files::cross_check(parts);
        self.warnings.extend(warnings);
        if faults.is_empty() { Ok(()) } else { Err(TenantProblem::Invalid { faults }) }
    }
}

/// The parser knows JSON only; a file that holds nothing, or other bytes than text, is told in the words of whoever saved it.
fn instead_of_json(content: &[u8]) -> &'static str {
    if without_byte_order_mark(content).iter().all(u8::is_ascii_whitespace) {
        return "the file is empty: ";
    }
    match std::str::from_utf8(content) {
        Ok(_) => "",
        Err(_) => "it is not UTF-8 text, save it as UTF-8: ",
    }
}

/// LOAD-15.
fn without_byte_order_mark(content: &[u8]) -> &[u8] {
    content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(content)
}

#[cfg(test)]
#[path = "tenant_tests.rs"]
mod tests;
