//! From the text of the JSON tenant files to their types, with every fault of a file found in one run.
//! Owns: the checker (LOAD-4, LOAD-10 to LOAD-17), one parser per file, the rules inside and across files.
//! Never: touches the disk, knows the environment beyond the reserved names, stops at the first fault.

mod catalog;
mod check;
mod cross;
mod earlier;
mod hints;
mod parsers;
mod rules;
mod tools;
mod tools_rules;

pub(super) use catalog::catalog;
pub use check::Fault;
pub(super) use check::{Object, Report, Spot, advice};
pub(super) use cross::{Parts, cross_check};
pub(super) use earlier::earlier_keys;
pub(super) use hints::prompt_hints;
pub(super) use parsers::number;
pub(super) use rules::rules;
pub(super) use tools::tools;

/// Name of the facts file, as messages and hashes show it.
pub(super) const CATALOG_FILE: &str = "catalog.json";
/// Name of the behaviour file.
pub(super) const RULES_FILE: &str = "rules.json";
/// Name of the optional tools file.
pub(super) const TOOLS_FILE: &str = "tools.json";
/// Name of the persona file.
pub(super) const PROMPT_FILE: &str = "prompt.md";

/// Every key of the three JSON files, for the test that the reference in `config/README.md` is complete.
#[cfg(test)]
pub(super) fn every_key() -> Vec<&'static str> {
    [catalog::KEYS, rules::KEYS, tools::KEYS]
        .iter()
        .flat_map(|lists| lists.iter())
        .flat_map(|list| list.iter())
        .copied()
        .collect()
}

#[cfg(test)]
mod tools_table_tests;
#[cfg(test)]
mod tools_tests;
