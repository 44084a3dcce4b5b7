//! The demo tenant's files as JSON that a test changes before it loads them.

use serde_json::Value;

use super::tenant::TenantFiles;
use super::{ReservedNames, Tenant, TenantProblem, Warning, demo};

/// The four files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) prompt: String,
    pub(super) catalog: Value,
    pub(super) rules: Value,
    pub(super) tools: Option<Value>,
    pub(super) reserved: ReservedNames,
}

impl Files {
    /// As embedded in the binary.
    pub(super) fn demo() -> Self {
        Self {
            prompt: "You answer for a woodworking school.".to_owned(),
            catalog: serde_json::from_str(demo::CATALOG).unwrap(),
            rules: serde_json::from_str(demo::RULES).unwrap(),
            tools: Some(serde_json::from_str(demo::TOOLS).unwrap()),
            reserved: ReservedNames::default(),
        }
    }

    /// Sets the value at a place such as `tools.flows.0.id`; keys that are missing on the way are made.
    pub(super) fn set(mut self, place: &str, value: Value) -> Self {
        let (file, path) = place.split_once('.').unwrap();
        let mut node = self.file(file);
        for key in path.split('.') {
            node = match key.parse::<usize>() {
                Ok(index) => &mut node[index],
                Err(_) => &mut node[key],
            };
        }
        *node = value;
        self
    }

    /// Removes a key.
    pub(super) fn remove(mut self, place: &str) -> Self {
        let (parent, key) = place.rsplit_once('.').unwrap();
        let (file, path) = parent.split_once('.').unwrap_or((parent, ""));
        let pointer =
            path.split('.').filter(|key| !key.is_empty()).map(|key| format!("/{key}")).collect::<String>();
        let parent = self.file(file).pointer_mut(&pointer).unwrap();
        parent.as_object_mut().unwrap().remove(key).unwrap();
        self
    }

    pub(super) fn file(&mut self, name: &str) -> &mut Value {
        match name {
            "catalog" => &mut self.catalog,
            "rules" => &mut self.rules,
            _ => self.tools.as_mut().unwrap(),
        }
    }

    pub(super) fn load(&self) -> Result<(Tenant, Vec<Warning>), TenantProblem> {
        let tools = self.tools.as_ref().map(ToString::to_string);
        let (catalog, rules) = (self.catalog.to_string(), self.rules.to_string());
        TenantFiles::given(&self.prompt, &catalog, &rules, tools.as_deref()).check(&self.reserved)
    }

    /// The snapshot of files that must load.
    pub(super) fn tenant(&self) -> Tenant {
        self.load().unwrap_or_else(|problem| panic!("{problem}")).0
    }

    /// The warnings of files that must load, but for what waits for a later version.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.all_warnings().into_iter().filter(|warning| !warning.contains(" yet: ")).collect()
    }

    /// All warnings of files that must load.
    pub(super) fn all_warnings(&self) -> Vec<String> {
        let (_, warnings) = self.load().unwrap_or_else(|problem| panic!("{problem}"));
        warnings.iter().map(ToString::to_string).collect()
    }

    /// The message of files that must be refused.
    pub(super) fn refusal(&self) -> String {
        match self.load() {
            Ok(_) => panic!("must be refused: {self:?}"),
            Err(problem) => problem.to_string(),
        }
    }
}

/// A change of the demo tenant is refused, with all the words in the message.
pub(super) fn assert_refused(place: &str, value: Value, words: &[&str]) {
    let message = Files::demo().set(place, value.clone()).refusal();
    for word in words {
        assert!(message.contains(word), "{place} = {value}: `{word}` is missing in: {message}");
    }
}

/// A change of the demo tenant loads.
pub(super) fn assert_loads(place: &str, value: Value) -> Tenant {
    Files::demo().set(place, value).tenant()
}
