//! The end of a turn: what may still be performed, and the record (08 sections 8 and 12).

use std::time::Instant;

use super::action::Action;
use super::ledger::{Item, Ledger, State};
use super::reach::ActionNumber;
use super::record::{Entry, Status};
use super::sending::unanswered;

/// How a turn ended, for what may happen to what it staged (08 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The reply does not escalate.
    Answered,
    /// The model, or its confidence, called a person (DISC-1).
    Escalated,
    /// Everything else that ends in a reply of ours: leak, invalid reply, failed call.
    Failed,
    /// The call was aborted. As [`Ending::Failed`], but a turn that did nothing records `null` (REC-1).
    Aborted,
}

impl Ending {
    /// Whether a staged action outlives this ending.
    fn keeps(self, action: &Action) -> bool {
        match self {
            Self::Answered => true,
            Self::Escalated => matches!(action, Action::WriteNote { on_escalation: true, .. }),
            Self::Failed | Self::Aborted => false,
        }
    }
}

/// An action to be performed after the reply.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StagedAction {
    /// Its number in the turn.
    pub number: ActionNumber,
    /// What to do; serialised beside the number, in one flat object.
    #[serde(flatten)]
    pub action: Action,
}

/// What remains of the tools of a turn that ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// `turns.actions`; `None` when no tool was offered and nothing was sent (REC-1).
    pub record: Option<Vec<Entry>>,
    /// To be performed after the reply, in order. The n-th belongs to the n-th staged entry of the record.
    pub staged: Vec<StagedAction>,
    /// How many were discarded (DISC-2).
    pub discarded: usize,
    /// Until when a flow that was sent plays, on the clock that deadlines use (WAIT-1).
    pub plays_until: Option<Instant>,
}

/// The record in the order of the calls, what was dropped behind it (REC-5).
pub(super) fn finish(ledger: &Ledger, ending: Ending, offered: bool) -> Finished {
    let mut finished = Finished { plays_until: ledger.plays_until, ..Finished::default() };
    let mut record = Vec::new();
    for item in ledger.items() {
        end_item(item, ending, &mut record, &mut finished);
    }
    record.extend(ledger.dropped().iter().map(|action| action.entry(Status::DroppedOverCap, None)));
    let nothing_to_tell = record.is_empty() && (!offered || ending == Ending::Aborted);
    finished.record = (!nothing_to_tell).then_some(record);
    finished
}

fn end_item(item: &Item, ending: Ending, record: &mut Vec<Entry>, finished: &mut Finished) {
    match &item.state {
        State::Staged if ending.keeps(&item.action) => {
            record.push(item.action.entry(Status::Staged, None));
            finished.staged.push(StagedAction { number: item.number, action: item.action.clone() });
        }
        State::Staged | State::Cancelled => {
            record.push(item.action.entry(Status::Discarded, None));
            finished.discarded += 1;
        }
        State::Sending => record.push(unanswered(&item.action)),
        State::Done(entries) => record.extend(entries.iter().cloned()),
    }
}
