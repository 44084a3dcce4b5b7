//! Why a turn could not be opened, kept or settled (ARC-5).

use crate::store::StoreError;

/// A step of a turn that failed. The contact gets the handoff copy, and what the turn has left is resolved.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// It was asked for without a message: an error of ours, there is nothing to answer.
    #[error("a turn without a message")]
    NoMessage,
    /// Others count this process as dead (ARC-44): wait for its new id.
    #[error("this process was silent for too long")]
    SilentProcess,
    /// The reply breaks the platform's rules (OUT-7): the line before names which.
    #[error("the reply could not be rendered")]
    Unrenderable,
    /// Somebody else ended it (ARC-45): find out what became of it.
    #[error("somebody else ended the turn")]
    Superseded,
    /// Its code failed, or whoever ran it has ended: find out how far it came.
    #[error("the turn was cut short")]
    CutShort,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TurnError {
    /// True when a turn that failed so before it was known to be open has certainly written nothing.
    #[must_use]
    pub const fn wrote_nothing(&self) -> bool {
        match self {
            Self::NoMessage | Self::SilentProcess => true,
            Self::Unrenderable | Self::Superseded | Self::CutShort => false,
            Self::Store(error) => error.wrote_nothing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LANE-9, ARC-31: only a failure that can have left nothing behind ends without asking what it has left.
    #[test]
    fn what_may_have_been_written_is_asked_for() {
        let unavailable = StoreError::Unavailable { reason: "the service is stopping" };
        for nothing in [TurnError::NoMessage, TurnError::SilentProcess, unavailable.into()] {
            assert!(nothing.wrote_nothing(), "{nothing}");
        }
        for unknown in [TurnError::CutShort, TurnError::Superseded, StoreError::InDoubt.into()] {
            assert!(!unknown.wrote_nothing(), "{unknown}");
        }
    }
}
