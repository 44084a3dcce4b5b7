//! The messages after the system part: history, then the current turn (PROMPT-13, PROMPT-14, 01 section 6).

use serde_json::Value;

use crate::domain::{ContactText, Role};
use crate::model::blank::is_blank;
use crate::model::fence::FencedText;
use crate::model::port::{MessageRole, ModelMessage, Part};

/// One earlier turn of the contact, as its row holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryTurn {
    /// Whose words they are.
    pub role: Role,
    /// `turns.text`.
    pub text: ContactText,
    /// `turns.actions` of an agent turn. It holds configured ids only, never contact text (08 REC-3).
    pub actions: Option<Value>,
}

/// History, oldest first, then one message for the current turn.
///
/// Agent turns before the contact's first are left out, because some providers refuse a request that begins with
/// one (DEC-18). `state_lines` are what the server knows about the contact, one part each (PROMPT-14); `texts` are the
/// messages this turn answers, more than one in a burst (DEC-33).
#[must_use]
pub fn messages(history: &[HistoryTurn], state_lines: &[String], texts: &[ContactText]) -> Vec<ModelMessage> {
    let from_contact = history.iter().skip_while(|turn| turn.role == Role::Agent);
    from_contact.filter_map(past_message).chain([current_message(state_lines, texts)]).collect()
}

/// HIST-1, HIST-2. `None` for a turn of the agent that shows nothing: some providers refuse a request with a blank text,
/// and would refuse every later turn of this contact.
fn past_message(turn: &HistoryTurn) -> Option<ModelMessage> {
    let (role, parts) = match turn.role {
        Role::User => (MessageRole::User, vec![Part::Contact(FencedText::new(turn.text.expose()))]),
        Role::Agent => {
            let said = Some(turn.text.expose()).filter(|text| !is_blank(text)).map(str::to_owned);
            let note = turn.actions.as_ref().and_then(action_note);
            (MessageRole::Assistant, said.into_iter().chain(note).map(Part::Text).collect())
        }
    };
    (!parts.is_empty()).then_some(ModelMessage { role, parts })
}

/// PROMPT-14: empty texts are left out, unless nothing else would stand in the message.
fn current_message(state_lines: &[String], texts: &[ContactText]) -> ModelMessage {
    let state = state_lines.iter().cloned().map(Part::Text);
    let said = texts
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| Part::Contact(FencedText::new(text.expose())));
    let mut parts: Vec<Part> = state.chain(said).collect();
    if parts.is_empty() {
        parts.push(Part::Contact(FencedText::new("")));
    }
    ModelMessage { role: MessageRole::User, parts }
}

/// What was performed in a turn, by configured ids alone (HIST-3 to HIST-5); `None` when nothing was.
fn action_note(actions: &Value) -> Option<String> {
    let performed: Vec<String> = actions.as_array()?.iter().filter_map(performed_item).collect();
    (!performed.is_empty()).then(|| format!("[actions performed: {}]", performed.join(", ")))
}

fn performed_item(entry: &Value) -> Option<String> {
    let word = |key: &str| entry.get(key).and_then(Value::as_str);
    let (tool, id) = (word("tool")?, word("id")?);
    if word("status")? != "performed" || tool == "send_event" {
        return None;
    }
    let value = word("value").map(|value| format!("={value}")).unwrap_or_default();
    Some(format!("{tool} {id}{value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> HistoryTurn {
        HistoryTurn { role: Role::User, text: ContactText::new(text), actions: None }
    }

    fn agent(text: &str, actions: Value) -> HistoryTurn {
        HistoryTurn { role: Role::Agent, text: ContactText::new(text), actions: Some(actions) }
    }

    fn texts(list: &[&str]) -> Vec<ContactText> {
        list.iter().map(|text| ContactText::new(*text)).collect()
    }

    /// Role and parts of each message, as a provider would send them.
    fn shown(messages: &[ModelMessage]) -> Vec<(MessageRole, Vec<&str>)> {
        messages
            .iter()
            .map(|message| (message.role, message.parts.iter().filter_map(Part::as_text).collect()))
            .collect()
    }

    fn fenced(text: &str) -> String {
        format!("<<<CONTACT_MESSAGE>>>\n{text}\n<<<END_CONTACT_MESSAGE>>>")
    }

    /// PROMPT-13, 01/HIST-1, FENCE-6: oldest first; the contact's words fenced, our own not.
    #[test]
    fn history_comes_before_the_current_message() {
        let history = [user("price?"), agent("It is $310.00.", json!([])), user("and days?")];
        let built = messages(&history, &[], &texts(&["hello?"]));
        let expected = [
            (MessageRole::User, vec![fenced("price?")]),
            (MessageRole::Assistant, vec!["It is $310.00.".to_owned()]),
            (MessageRole::User, vec![fenced("and days?")]),
            (MessageRole::User, vec![fenced("hello?")]),
        ];
        let shown: Vec<(MessageRole, Vec<String>)> = shown(&built)
            .into_iter()
            .map(|(role, parts)| (role, parts.into_iter().map(str::to_owned).collect()))
            .collect();
        assert_eq!(shown, expected);
    }

    /// DEC-18
    #[test]
    fn agent_turns_before_the_first_of_the_contact_are_left_out() {
        let history = [agent("Welcome.", json!([])), agent("Still there?", json!([])), user("yes")];
        let built = messages(&history, &[], &texts(&["price?"]));
        assert_eq!(shown(&built).len(), 2);
        assert!(built.iter().all(|message| message.role == MessageRole::User));
        assert_eq!(messages(&history[..2], &[], &texts(&["price?"])).len(), 1);
    }

    /// FAIL-3: a blank turn of the agent is left out; what it did is still told.
    #[test]
    fn a_blank_turn_of_the_agent_is_left_out() {
        for text in ["", " \n", "\u{200b}", "**"] {
            let built = messages(&[user("hi"), agent(text, json!([]))], &[], &texts(&["price?"]));
            assert_eq!(built.len(), 2, "{text:?}");
            assert!(built.iter().all(|message| message.role == MessageRole::User), "{text:?}");
            let acted = json!([{ "tool": "add_tag", "id": "keen", "status": "performed" }]);
            let built = messages(&[user("hi"), agent(text, acted)], &[], &texts(&["price?"]));
            assert_eq!(shown(&built)[1].1, ["[actions performed: add_tag keen]"], "{text:?}");
        }
    }

    /// DEC-33, PROMPT-14: a burst is one message with a fenced part for each text; empty ones say nothing.
    #[test]
    fn a_burst_is_one_message_with_a_part_for_each_text() {
        let built = messages(&[], &[], &texts(&["hi", "", "what does it cost?"]));
        assert_eq!(built.len(), 1);
        assert_eq!(shown(&built)[0].1, [fenced("hi"), fenced("what does it cost?")]);
    }

    /// PROMPT-14: state lines first, unfenced; an empty text stands alone or not at all.
    #[test]
    fn state_lines_come_before_the_fenced_text() {
        let lines = ["INTENT: nothing recorded".to_owned(), "FUNNEL: new".to_owned()];
        let built = messages(&[], &lines, &texts(&["hi"]));
        assert_eq!(shown(&built)[0].1, [lines[0].as_str(), lines[1].as_str(), fenced("hi").as_str()]);
        assert_eq!(shown(&messages(&[], &lines, &texts(&[""])))[0].1, [lines[0].as_str(), lines[1].as_str()]);
        assert_eq!(shown(&messages(&[], &[], &texts(&[""])))[0].1, [fenced("")]);
    }

    /// 01/HIST-2 to HIST-5, 08/HIST-1 to HIST-3, 01/AC-15: only what was performed, by id, in record order, without events.
    #[test]
    fn the_action_note_names_what_was_performed() {
        let actions = json!([
            { "tool": "send_flow", "id": "glaze_guide", "status": "performed", "origin": "stage" },
            { "tool": "add_tag", "id": "likes_glaze", "status": "failed", "error": "no such tag" },
            { "tool": "send_event", "id": "offer_made", "status": "performed" },
            { "tool": "set_field", "id": "preferred_shift", "value": "evening", "status": "performed" },
            { "tool": "write_note", "id": "aim", "length": 61, "status": "staged" },
            { "tool": "send_flow", "id": "late_one", "status": "dropped_over_cap" },
        ]);
        let built = messages(&[user("hi"), agent("Here you are.", actions)], &[], &texts(&["thanks"]));
        let note = "[actions performed: send_flow glaze_guide, set_field preferred_shift=evening]";
        assert_eq!(shown(&built)[1].1, ["Here you are.", note]);
    }

    /// 01/HIST-4, 08/HIST-2: nothing performed, or nothing legible, leaves no note.
    #[test]
    fn a_turn_without_performed_actions_has_no_note() {
        let records = [
            json!([]),
            json!([{ "tool": "send_event", "id": "offer_made", "status": "performed" }]),
            json!([{ "tool": "send_flow", "status": "performed" }, 7, null]),
            json!({ "tool": "send_flow" }),
        ];
        for actions in records {
            let built = messages(&[user("hi"), agent("Hello.", actions)], &[], &texts(&["ok"]));
            assert_eq!(shown(&built)[1].1, ["Hello."]);
        }
    }
}
