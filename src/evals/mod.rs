//! Evaluations: a suite of conversations replayed through the production code, and what drifted (07).
//! Owns: cases and suites, running one, assertions, statuses, reports, comparison, judging, coverage.
//! Never: performs an action, calls ManyChat, holds a second copy of a rule that a turn obeys.

mod assertions;
mod bench;
mod case;
mod compare;
mod coverage;
mod doubts;
mod error;
#[cfg(test)]
mod golden_tests;
mod json;
mod judge;
mod outcome;
mod report;
mod suite;
#[cfg(test)]
mod test_support;

pub use assertions::{Failure, FailureCode, Standard, check};
pub use bench::{Bench, Limits, Observed};
pub use case::{Case, Contact, Expect, PastTurn};
pub use compare::{Comparison, compare, page};
pub use coverage::Coverage;
pub use doubts::doubts;
pub use error::{EvalError, LineFault};
pub use json::{CaseReport, JudgeReport, Report, Totals, parse as parse_report};
pub use judge::{Calibration, Judge, Judged, Verdict};
pub use outcome::{CaseOutcome, Run, Status, run_case};
pub use report::{Style, case_lines, header, summary};
pub use suite::{Choice, GOLDEN, Suite};
