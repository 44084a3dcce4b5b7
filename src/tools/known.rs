//! What earlier turns did for a contact, folded from their records (TSET-8).

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::Value;

use super::perform::PER_ACTION;
use super::record::{OUTCOME_UNKNOWN, Status};
use crate::config::{FieldTool, SENDS_OPENING, Tools};
use crate::domain::{Intent, Stage};

/// What is known of the contact's earlier actions (TSET-8, ARC-34). Stored as the summary of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Known {
    /// Flows sent, or perhaps sent, with the business time of their last turn.
    pub sent_flows: HashMap<String, Timestamp>,
    /// Last stage that was written.
    pub stage: Option<Stage>,
    /// Last intent that was written.
    pub intent: Option<Intent>,
    /// Last offering that was written.
    pub offering: Option<String>,
    /// The opening flow was spent.
    pub opening_spent: bool,
    /// What earlier turns have staged and nobody has performed yet. No part of a summary.
    #[serde(skip)]
    pub pending: Pending,
}

/// Writes that earlier turns of the contact have staged and that are still to be made: of a reply that waits for its flow, is
/// in the outbox, or whose actions wait for ManyChat. Until one has failed, what later turns stage lands behind it (10 section
/// 16.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The highest stage among them.
    pub stage: Option<Stage>,
    /// The last intent.
    pub intent: Option<Intent>,
    /// The last offering.
    pub offering: Option<String>,
}

impl Known {
    /// Adds the record of one agent turn: its business time and `turns.actions`. Turns come oldest first, by `seq`; adding
    /// the newest once more changes nothing. What cannot be read (`null`, an entry of another service) counts for nothing.
    pub fn fold(&mut self, tools: &Tools, at: Timestamp, actions: &Value) {
        for entry in actions.as_array().into_iter().flatten() {
            self.fold_entry(tools, at, entry);
        }
    }

    /// The same for a turn whose actions are still open, with what was `tried` of them: number of the attempt and its entry, in
    /// order. What is done counts as it will on the record; what is not is pending.
    pub fn fold_open<'entry>(
        &mut self,
        tools: &Tools,
        at: Timestamp,
        actions: &Value,
        tried: impl IntoIterator<Item = (i32, &'entry Value)>,
    ) {
        let mut groups: BTreeMap<i32, Vec<&Value>> = BTreeMap::new();
        for (number, entry) in tried {
            groups.entry(number / PER_ACTION).or_default().push(entry);
        }
        let mut staged = 0;
        for entry in actions.as_array().into_iter().flatten() {
            if status(entry) != Some(Status::Staged.as_str()) {
                self.fold_entry(tools, at, entry);
                continue;
            }
            // The n-th staged entry is the n-th action (REC-6).
            match groups.get(&staged) {
                Some(group) => group.iter().for_each(|entry| self.fold_entry(tools, at, entry)),
                None => {
                    self.fold_entry(tools, at, entry);
                    self.expect(tools, entry);
                }
            }
            staged += 1;
        }
    }

    /// The stage below which nothing is staged any more (FN-STAGE-4).
    #[must_use]
    pub fn floor(&self) -> Option<Stage> {
        self.stage.max(self.pending.stage)
    }

    /// What the contact's intent is, or will be when what is staged is done: `prospect` is final (FN-INT-1).
    #[must_use]
    pub fn intent_to_come(&self) -> Option<Intent> {
        match self.intent {
            Some(Intent::Prospect) => self.intent,
            known => self.pending.intent.or(known),
        }
    }

    fn expect(&mut self, tools: &Tools, entry: &Value) {
        let Some((id, value)) = written(entry) else { return };
        let is = |field: Option<&FieldTool>| field.is_some_and(|field| field.id == id);
        if is(tools.funnel_field()) {
            self.pending.stage = self.pending.stage.max(value.parse().ok());
        }
        if is(tools.intent_field()) {
            self.pending.intent = value.parse().ok().or(self.pending.intent);
        }
        if is(tools.offering_field()) {
            self.pending.offering = Some(value.to_owned());
        }
    }

    /// Whether this flow reached the contact, or may have, at or after `from` (FN-ONCE-1).
    #[must_use]
    pub fn has_sent(&self, flow: &str, from: Timestamp) -> bool {
        self.sent_flows.get(flow).is_some_and(|at| *at >= from)
    }

    fn fold_entry(&mut self, tools: &Tools, at: Timestamp, entry: &Value) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("tool") {
            "send_flow" => {
                self.opening_spent |= text("origin") == "opening";
                if performed(entry) || outcome_unknown(entry) {
                    let last = self.sent_flows.entry(text("id").to_owned()).or_insert(at);
                    *last = at.max(*last);
                }
            }
            "set_field" => self.fold_write(tools, text("id"), text("value"), entry),
            _ => {}
        }
    }

    fn fold_write(&mut self, tools: &Tools, id: &str, value: &str, entry: &Value) {
        let is = |field: Option<&FieldTool>| field.is_some_and(|field| field.id == id);
        let intent: Option<Intent> = is(tools.intent_field()).then(|| value.parse().ok()).flatten();
        // A write that was only tried spends the opening as well; one past the cap does not (FN-OPEN-3). Where nothing sends
        // openings the write cannot have brought one, so it spends none.
        self.opening_spent |= SENDS_OPENING
            && intent == Some(Intent::Prospect)
            && status(entry) != Some(Status::DroppedOverCap.as_str());
        if !performed(entry) {
            return;
        }
        self.intent = intent.or(self.intent);
        if is(tools.funnel_field()) {
            self.stage = value.parse().ok().or(self.stage);
        }
        if is(tools.offering_field()) {
            self.offering = Some(value.to_owned());
        }
    }
}

/// Field and value of a write.
fn written(entry: &Value) -> Option<(&str, &str)> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    (text("tool") == Some("set_field")).then(|| text("id").zip(text("value"))).flatten()
}

fn status(entry: &Value) -> Option<&str> {
    entry.get("status").and_then(Value::as_str)
}

fn performed(entry: &Value) -> bool {
    status(entry) == Some(Status::Performed.as_str())
}

/// ARC-41: it may have arrived, so it is not offered as unsent.
fn outcome_unknown(entry: &Value) -> bool {
    let error = entry.get("error").and_then(Value::as_str).unwrap_or_default();
    status(entry) == Some(Status::Failed.as_str()) && error.starts_with(OUTCOME_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::shop;
    use super::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + day * 86_400).unwrap()
    }

    fn folded(turns: &[Value]) -> Known {
        let mut known = Known::default();
        for (at, actions) in (0..).zip(turns) {
            known.fold(&shop(), day(at), actions);
        }
        known
    }

    fn write(id: &str, value: &str, status: &str) -> Value {
        json!({"tool": "set_field", "id": id, "value": value, "status": status})
    }

    /// TSET-8, FN-STAGE-2, FN-ACC-5: the last performed write counts, whatever else was tried after it.
    #[test]
    fn the_last_performed_writes_count() {
        let known = folded(&[
            json!([write("sale_stage", "nurturing", "performed"), write("purpose", "prospect", "performed")]),
            json!([write("what_class", "glaze", "performed"), write("what_class", "wheel", "performed")]),
            json!([write("sale_stage", "offered", "failed"), write("purpose", "not_prospect", "staged")]),
            json!([
                write("sale_stage", "prepared", "discarded"),
                write("what_class", "glaze", "dead_lettered")
            ]),
            json!([
                write("sale_stage", "link_sent", "dropped_over_cap"),
                write("day_choice", "new", "performed")
            ]),
        ]);
        assert_eq!((known.stage, known.intent), (Some(Stage::Nurturing), Some(Intent::Prospect)));
        assert_eq!(known.offering.as_deref(), Some("wheel"));
    }

    /// TSET-3, FLOW-11, FN-ONCE-1, FN-ONCE-3, FN-ONCE-4, FN-ACC-16: performed flows count from their last turn on, an edge
    /// included.
    #[test]
    fn sent_flows_count_inside_the_window() {
        let flow = |id: &str, status: &str| json!({"tool": "send_flow", "id": id, "status": status, "origin": "stage"});
        let known = folded(&[
            json!([flow("a", "performed"), flow("b", "failed"), flow("c", "discarded"), flow("d", "staged")]),
            json!([flow("a", "performed"), flow("e", "dead_lettered")]),
        ]);
        assert_eq!(known.sent_flows.len(), 1);
        assert!(
            known.has_sent("a", day(1)) && !known.has_sent("a", day(1) + std::time::Duration::from_millis(1))
        );
        assert!(!known.has_sent("b", day(0)));
    }

    /// ARC-41, LIM-3: a flow that may have gone out counts as sent; a write that may have does not move the stage.
    #[test]
    fn an_unknown_outcome_counts_as_sent() {
        let unknown = "outcome unknown: no answer";
        let known = folded(&[json!([
            {"tool": "send_flow", "id": "a", "status": "failed", "error": unknown},
            {"tool": "send_flow", "id": "b", "status": "failed", "error": "refused, outcome unknown"},
            {"tool": "set_field", "id": "sale_stage", "value": "offered", "status": "failed", "error": unknown},
        ])]);
        assert!(known.has_sent("a", day(0)) && !known.has_sent("b", day(0)));
        assert_eq!(known.stage, None);
    }

    /// FN-OPEN-3: what spends the opening; a write by a version that sends none spends none.
    #[test]
    fn a_tried_opening_or_prospect_write_spends_the_opening() {
        for status in ["performed", "failed", "discarded", "staged", "dead_lettered"] {
            let written = folded(&[json!([write("purpose", "prospect", status)])]);
            assert_eq!(written.opening_spent, SENDS_OPENING, "{status}");
            let opening =
                json!([{"tool": "send_flow", "id": "hello_card", "status": status, "origin": "opening"}]);
            assert!(folded(&[opening]).opening_spent, "{status}");
        }
        assert!(!folded(&[json!([write("purpose", "prospect", "dropped_over_cap")])]).opening_spent);
        assert!(!folded(&[json!([write("purpose", "not_prospect", "performed")])]).opening_spent);
    }

    /// 10 section 16.1, FN-STAGE-2, REC-6: of a turn whose actions are open, what was tried counts as it ended, each in the place
    /// of its own staged entry; the rest is pending, and nothing of it is known as done.
    #[test]
    fn what_is_still_staged_is_pending() {
        let record = json!([
            write("purpose", "prospect", "staged"),
            write("sale_stage", "qualifying", "staged"),
            {"tool": "send_flow", "id": "tour", "status": "performed"},
            write("sale_stage", "offered", "staged"),
            write("what_class", "wheel", "staged"),
            write("sale_stage", "prepared", "discarded"),
        ]);
        let tried = [
            (0, write("purpose", "prospect", "performed")),
            (PER_ACTION, write("sale_stage", "qualifying", "performed")),
            (PER_ACTION + 1, json!({"tool": "send_event", "id": "e", "status": "performed"})),
        ];
        let known = |tried: &[(i32, Value)]| {
            let mut known = Known::default();
            known.fold_open(&shop(), day(0), &record, tried.iter().map(|(number, entry)| (*number, entry)));
            known
        };
        let some = known(&tried);
        assert_eq!((some.stage, some.intent), (Some(Stage::Qualifying), Some(Intent::Prospect)));
        assert_eq!((some.floor(), some.pending.offering.as_deref()), (Some(Stage::Offered), Some("wheel")));
        assert!(some.has_sent("tour", day(0)) && some.pending.intent.is_none());

        let none = known(&[]);
        assert_eq!((none.stage, none.intent, none.offering.as_deref()), (None, None, None));
        assert_eq!((none.floor(), none.intent_to_come()), (Some(Stage::Offered), Some(Intent::Prospect)));

        let refused = known(&[(2 * PER_ACTION, write("sale_stage", "offered", "failed"))]);
        assert_eq!(refused.floor(), Some(Stage::Qualifying), "FN-STAGE-2: a refused write is no floor");
        let summary = serde_json::to_value(&none).unwrap();
        assert!(summary.get("pending").is_none(), "ARC-34: {summary}");
    }

    /// FN-INT-1: `prospect` is final; before it the later word counts.
    #[test]
    fn the_intent_to_come_never_goes_back() {
        let to_come = |intent, staged| {
            let pending = Pending { intent: staged, ..Pending::default() };
            Known { intent, pending, ..Known::default() }.intent_to_come()
        };
        let (yes, no) = (Some(Intent::Prospect), Some(Intent::NotProspect));
        assert_eq!(
            [to_come(yes, no), to_come(no, yes), to_come(None, no), to_come(no, None)],
            [yes, yes, no, no]
        );
    }

    /// What another service wrote, or nobody can read, changes nothing; folding the newest turn again neither.
    #[test]
    fn unreadable_records_count_for_nothing() {
        let strange = json!([7, null, {"tool": 1}, {"tool": "plugin", "id": "x", "status": "performed"}, {"tool": "set_field"}]);
        assert_eq!(folded(&[Value::Null, strange, json!({"tool": "send_flow"})]), Known::default());
        let turn = json!([write("sale_stage", "offered", "performed"), {"tool": "send_flow", "id": "a", "status": "performed"}]);
        let mut once = folded(std::slice::from_ref(&turn));
        let before = once.clone();
        once.fold(&shop(), day(0), &turn);
        assert_eq!(once, before);
        let stored = serde_json::to_string(&once).unwrap();
        assert_eq!(serde_json::from_str::<Known>(&stored).unwrap(), once);
    }
}
