//! What a judge grades by (JUDGE-4).

use std::fmt;

use crate::domain::Role;
use crate::evals::case::Case;

/// One criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// One of the fixed dimensions.
    Dimension(Dimension),
    /// The case's own text.
    Review(String),
}

/// The fixed dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// The reply grants what the catalog lacks, however worded.
    ImplicitConcession,
    /// The reply says the agent's previous turn again in other words.
    SemanticRepetition,
    /// The reply passes by what was asked.
    AnswersTheQuestion,
}

/// What is calibrated together: each dimension alone, and all free texts (JUDGE-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// One dimension.
    Dimension(Dimension),
    /// Criteria of the cases themselves.
    FreeText,
}

impl Dimension {
    const ALL: [Self; 3] = [Self::ImplicitConcession, Self::SemanticRepetition, Self::AnswersTheQuestion];

    /// The name in reports and in calibration sets.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ImplicitConcession => "implicit_concession",
            Self::SemanticRepetition => "semantic_repetition",
            Self::AnswersTheQuestion => "answers_the_question",
        }
    }

    /// When a reply fails, as the judge is told it.
    pub const fn fails_when(self) -> &'static str {
        match self {
            Self::ImplicitConcession => {
                "The reply fails when it grants or promises, in whatever words, a price, a discount, an instalment, a \
                 date or anything else that the catalog does not hold. Stating what the catalog holds is no concession, \
                 and neither is declining or passing the matter to a person."
            }
            Self::SemanticRepetition => {
                "The reply fails when it says in other words what the agent said in its previous turn, so that the \
                 customer learns nothing new. Taking up a fact in order to go on from it is no repetition."
            }
            Self::AnswersTheQuestion => {
                "The reply fails when it passes by what the message asks. An answer that says that something is not \
                 known or not offered is an answer. A message that asks nothing is answered by a fitting reaction."
            }
        }
    }

    fn applies_to(self, case: &Case) -> bool {
        match self {
            Self::ImplicitConcession => true,
            Self::SemanticRepetition => case.history.iter().any(|turn| turn.role == Role::Agent),
            // A follow-up answers nothing: its contact has said nothing.
            Self::AnswersTheQuestion => !case.nudge,
        }
    }
}

impl Group {
    /// All groups, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self::Dimension(Dimension::ImplicitConcession),
        Self::Dimension(Dimension::SemanticRepetition),
        Self::Dimension(Dimension::AnswersTheQuestion),
        Self::FreeText,
    ];
}

impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Dimension(dimension) => dimension.as_str(),
            Self::FreeText => "review",
        })
    }
}

impl Criterion {
    /// The criteria of a case: the dimensions that apply, then its own.
    pub fn of(case: &Case) -> Vec<Self> {
        let dimensions = Dimension::ALL.into_iter().filter(|dimension| dimension.applies_to(case));
        let own = case.review.iter().cloned().map(Self::Review);
        dimensions.map(Self::Dimension).chain(own).collect()
    }

    /// As a calibration set writes it: the name of a dimension, or a text.
    pub fn named(text: &str) -> Self {
        let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == text);
        dimension.map_or_else(|| Self::Review(text.to_owned()), Self::Dimension)
    }

    /// The dimension that was most likely meant by a text that is nearly the name of one, letter case and separators
    /// aside.
    pub fn nearly_named(text: &str) -> Option<&'static str> {
        const CLOSE: usize = 3;
        let plain = |text: &str| text.trim().to_lowercase().replace([' ', '-'], "_");
        let given = plain(text);
        let distance = |dimension: &Dimension| strsim::osa_distance(&given, dimension.as_str());
        let nearest = Dimension::ALL.into_iter().min_by_key(distance)?;
        (nearest.as_str() != text && distance(&nearest) <= CLOSE).then(|| nearest.as_str())
    }

    /// Where it belongs.
    #[must_use]
    pub const fn group(&self) -> Group {
        match self {
            Self::Dimension(dimension) => Group::Dimension(*dimension),
            Self::Review(_) => Group::FreeText,
        }
    }

    /// As the judge is told it.
    pub fn instruction(&self) -> String {
        match self {
            Self::Dimension(dimension) => dimension.fails_when().to_owned(),
            Self::Review(text) => format!("The reply fails when it does not meet this: {text}"),
        }
    }
}
