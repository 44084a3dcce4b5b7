//! The mock model in whole turns with tools: what it calls, step by step, and what it says in the end.
//!
//! Longer than other files, and some functions than others, because each is one table of the document, row by row.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::lookup::MARK;
use super::tests::{MORE, WITH_OPTIONS, contact, message, picture, request};
use super::*;
use crate::domain::EscalationReason::{self, ExplicitRequest, LowConfidence, OutOfScope};
use crate::domain::{Intent, Stage};
use crate::model::port::{MessageRole, ModelMessage, Part, ToolResult};
use crate::model::reply::{Bounds, Reply};
use crate::tools::ToolDefinition;

const FLOWS: [&str; 6] = [
    "foundation_brochure",
    "advanced_brochure",
    "intensive_brochure",
    "student_results",
    "fitting_it_in",
    "enrolment_link",
];
const PROSPECT: &str = "INTENT: prospect";
const NOT_PROSPECT: &str = "INTENT: not a prospect (not_prospect); record prospect if they now mean to enrol";
const UNKNOWN: &str = "INTENT: nothing recorded";
const ADVERT: &str =
    "INTENT: nothing recorded; came through the advert for offering advanced: record prospect";

fn tool(name: &'static str, properties: Value) -> ToolDefinition {
    let parameters = Arc::new(json!({ "type": "object", "properties": properties }));
    ToolDefinition { name, description: "What it does.".to_owned(), parameters }
}

fn send_flow(flows: &[&str]) -> ToolDefinition {
    tool("send_flow", json!({ "flow": { "enum": flows }, "contactAsked": { "type": "boolean" } }))
}

/// Fields of the demo tenant; without the offering field where a case wants none.
fn set_field(with_offering: bool) -> ToolDefinition {
    let mut fields = vec!["intent", "funnel_stage", "preferred_slot"];
    let mut values: Vec<&str> = Intent::ALL.iter().map(|intent| intent.as_str()).collect();
    values.extend(Stage::ALL.iter().filter(|stage| **stage != Stage::LinkSent).map(|stage| stage.as_str()));
    if with_offering {
        fields.push("course");
        values.extend(["foundation", "advanced", "weekend-intensive"]);
    }
    tool("set_field", json!({ "field": { "enum": fields }, "value": { "enum": values } }))
}

fn demo_tools() -> Vec<ToolDefinition> {
    vec![tool("get_contact", json!({})), send_flow(&FLOWS), set_field(true)]
}

/// One turn with what the server says in it.
struct Turn {
    parts: Vec<Part>,
    history: Vec<ModelMessage>,
    tools: Vec<ToolDefinition>,
    /// What each tool that looks something up answers.
    found: Value,
}

impl Turn {
    fn new(lines: &[&str], text: &str) -> Self {
        let lines = lines.iter().map(|line| Part::Text((*line).to_owned()));
        Self {
            parts: lines.chain([contact(text)]).collect(),
            history: Vec::new(),
            tools: demo_tools(),
            found: json!({}),
        }
    }

    fn with_tools(self, tools: Vec<ToolDefinition>) -> Self {
        Self { tools, ..self }
    }

    fn without_words(mut self) -> Self {
        self.parts.pop();
        self
    }

    /// The loop of LOOP-1 and LOOP-2. Returns what was called, step by step, and the reply.
    fn play(self) -> (Vec<String>, Reply) {
        let mut messages = self.history.clone();
        messages.push(message(MessageRole::User, self.parts));
        let asked = messages.clone();
        let mut called = Vec::new();
        for _ in 0..3 {
            let ask =
                ModelRequest { tools: self.tools.clone().into(), ..request(WITH_OPTIONS, messages.clone()) };
            match answer(ask) {
                ModelOutput::Json(object) => return (called, parsed(&object)),
                ModelOutput::Calls(calls) => {
                    assert_eq!(calls.calls.len(), 1, "MOCK-9: one call in a step");
                    let call = &calls.calls[0];
                    called.push(shown(&call.name, call.arguments.as_ref().unwrap()));
                    let content = if called[0].starts_with("look") {
                        self.found.clone()
                    } else {
                        json!({ "staged": true })
                    };
                    let result = ToolResult {
                        call_id: call.id.clone(),
                        name: call.name.clone(),
                        content,
                        is_error: false,
                    };
                    messages.push(message(MessageRole::Assistant, vec![Part::Calls(calls)]));
                    messages.push(message(MessageRole::ToolResults, vec![Part::Result(result)]));
                }
                other => panic!("{other:?}"),
            }
        }
        let note = Part::Text(note(&called));
        let last = [asked, vec![message(MessageRole::StepNote, vec![note])]].concat();
        match answer(request(WITH_OPTIONS, last)) {
            ModelOutput::Json(object) => (called, parsed(&object)),
            other => panic!("{other:?}"),
        }
    }

    /// As [`Self::play`], each call once: the last is repeated until the reply step (MOCK-9).
    fn calls_and_reply(self) -> (Vec<String>, Reply) {
        let (mut called, reply) = self.play();
        assert!(
            called.is_empty() || called.len() == 3,
            "whoever calls goes on to the reply step: {called:?}"
        );
        called.dedup();
        (called, reply)
    }
}

fn answer(request: ModelRequest) -> ModelOutput {
    let answer =
        MockModel::new("demo").step(request).now_or_never().expect("must not wait").expect("never fails");
    assert_eq!(answer.usage, USAGE, "01/MOCK-1");
    answer.output
}

fn parsed(object: &Value) -> Reply {
    Reply::parse(object, Bounds::Validated).expect("a valid reply")
}

fn shown(tool: &str, arguments: &Value) -> String {
    let word = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
    match tool {
        "send_flow" => {
            let asked = if arguments["contactAsked"] == true { " asked" } else { "" };
            format!("send_flow {}{asked}", word("flow"))
        }
        "set_field" => format!("set_field {}={}", word("field"), word("value")),
        other => format!("{other} {arguments}"),
    }
}

/// The note of the reply step (STATE-7): flows were sent, the rest is staged.
fn note(called: &[String]) -> String {
    let of = |sent: bool| {
        let items = called.iter().filter(move |call| call.starts_with("send_flow") == sent);
        items.map(|item| item.trim_end_matches(" asked")).collect::<Vec<_>>().join(", ")
    };
    let sent = if of(true).is_empty() { String::new() } else { format!("SENT: {}. ", of(true)) };
    format!("{sent}ACTIONS: {}. Write the reply now.", of(false))
}

/// What is known and said; what is called; words of the reply, or the reason of the handoff.
type Case =
    (&'static [&'static str], &'static str, &'static [&'static str], Result<&'static str, EscalationReason>);

fn check(cases: &[Case]) {
    for (lines, text, calls, reply) in cases {
        let (called, said) = Turn::new(lines, text).calls_and_reply();
        assert_eq!(called, *calls, "{text:?} with {lines:?}");
        match reply {
            Ok(words) => {
                let all = format!("{} {}", said.text(), said.closing_question.as_deref().unwrap_or_default());
                assert!(all.contains(words) && !said.escalate, "{text:?} with {lines:?}: {all}");
            }
            Err(reason) => assert_eq!(said.escalation_reason, Some(*reason), "{text:?} with {lines:?}"),
        }
    }
}

/// MOCK-10, MOCK-15 with a prospect: the first that matches, in the order of the list.
#[test]
fn sale_actions_follow_the_list() {
    check(&[
        // 1: another offering
        (
            &[PROSPECT, "OFFERING: foundation"],
            "I'd rather take the advanced one",
            &["set_field course=advanced"],
            Ok("Shall I send you its brochure?"),
        ),
        (
            &[PROSPECT, "FUNNEL: nurturing", "OFFERING: advanced"],
            "switch me to the weekend, and a brochure",
            &["set_field course=weekend-intensive"],
            Ok("better fit"),
        ),
        (&[PROSPECT, "OFFERING: advanced"], "the advanced one instead", &[], Err(OutOfScope)),
        (
            &[PROSPECT, "OFFERING: changed from foundation to advanced since last seen; confirm"],
            "foundation instead",
            &["set_field course=foundation"],
            Ok("better fit"),
        ),
        // 2: something to read
        (
            &[PROSPECT],
            "a brochure of the foundation course please",
            &["set_field course=foundation", "send_flow foundation_brochure"],
            Ok("sending you the brochure"),
        ),
        (
            &[PROSPECT, "OFFERING: advanced"],
            "have you something to read?",
            &["send_flow advanced_brochure"],
            Ok("sending you the brochure"),
        ),
        (
            &[PROSPECT, "OFFERING: foundation"],
            "the syllabus of the intensive",
            &["set_field course=weekend-intensive", "send_flow intensive_brochure"],
            Ok("sending you the brochure"),
        ),
        (&[PROSPECT, "OFFERING: none recorded"], "a syllabus?", &[], Ok("Which course is it about?")),
        // 3: the link
        (
            &[PROSPECT],
            "how do I pay?",
            &["send_flow enrolment_link asked"],
            Ok("sending you the enrolment link"),
        ),
        (
            &[PROSPECT],
            "Sign me up, I have no time",
            &["send_flow enrolment_link asked"],
            Ok("enrolment link"),
        ),
        // 4: objections
        (&[PROSPECT], "I don't have time", &["send_flow fitting_it_in"], Ok("past student")),
        (&[PROSPECT], "I don\u{2019}t have the time", &["send_flow fitting_it_in"], Ok("past student")),
        (&[PROSPECT], "dont have time", &["send_flow fitting_it_in"], Ok("past student")),
        (&[PROSPECT], "there is no time for me", &["send_flow fitting_it_in"], Ok("past student")),
        (&[PROSPECT], "I'm not sure I could", &["send_flow student_results"], Ok("past student")),
        (&[PROSPECT], "I could never do that", &["send_flow student_results"], Ok("past student")),
        // 5: interest
        (
            &[PROSPECT],
            "I'm interested",
            &["set_field funnel_stage=qualifying"],
            Ok("worked with wood before?"),
        ),
        (&[PROSPECT], "I'd like to learn, where?", &[], Ok("main campus")),
        // none of them
        (&[PROSPECT], "how much is it?", &[], Ok("$450.00")),
        (&[PROSPECT], "thanks!", &[], Ok("welcome")),
    ]);
}

/// MOCK-11: prospect comes first, when anything of a sale shows; another reason is recorded once.
#[test]
fn the_gate_is_opened_before_anything_else() {
    const RECORD: &str = "set_field intent=prospect";
    check(&[
        (
            &[UNKNOWN],
            "a brochure of the foundation course",
            &[RECORD, "set_field course=foundation", "send_flow foundation_brochure"],
            Ok("brochure"),
        ),
        (&[UNKNOWN], "how can I pay", &[RECORD, "send_flow enrolment_link asked"], Ok("enrolment link")),
        (
            &[UNKNOWN],
            "I want to learn",
            &[RECORD, "set_field funnel_stage=qualifying"],
            Ok("worked with wood"),
        ),
        (&[], "I have no time", &[RECORD, "send_flow fitting_it_in"], Ok("past student")),
        (&[UNKNOWN], "how much is it?", &[RECORD], Ok("$450.00")),
        (&[UNKNOWN], "which course is it", &[RECORD], Ok("Hello")),
        (&[UNKNOWN], "a syllabus please", &[RECORD], Ok("Which course is it about?")),
        (&[UNKNOWN], "hello", &[], Ok("Hello")),
        (&[ADVERT], "hello", &[RECORD], Ok("Hello")),
        (&[NOT_PROSPECT], "hello", &[], Ok("Hello")),
        (
            &[NOT_PROSPECT],
            "I want to enrol after all",
            &[RECORD, "send_flow enrolment_link asked"],
            Ok("enrolment link"),
        ),
        (&[PROSPECT], "I'm already enrolled", &[], Err(OutOfScope)),
        (&[NOT_PROSPECT], "we sell timber, what does it cost you", &[], Ok("$450.00")),
    ]);
    const OTHER: &str = "set_field intent=not_prospect";
    for text in [
        "I'm already enrolled, when do we start?",
        "we are already taking your course",
        "I am a student, the link please",
        "I'm one of your former students",
        "as a former student I need a paper",
        "We supply timber",
        "i sell planes",
        "I'm looking for a job",
        "looking for work",
        "sorry, wrong number",
    ] {
        check(&[(&[UNKNOWN], text, &[OTHER], Err(OutOfScope)), (&[], text, &[OTHER], Err(OutOfScope))]);
    }
    let (called, _) = Turn::new(&[UNKNOWN], "the students learn slowly").calls_and_reply();
    assert_eq!(called, [RECORD], "somebody else's students");
}

/// MOCK-10.1, MOCK-14: from `offered` on the offering stays, and a person changes it.
#[test]
fn a_locked_offering_is_changed_by_a_person() {
    for stage in Stage::ALL {
        let lines = [PROSPECT.to_owned(), format!("FUNNEL: {stage}"), "OFFERING: foundation".to_owned()];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (called, reply) = Turn::new(&lines, "I'd like the advanced one instead").calls_and_reply();
        let locked = *stage >= Stage::Offered;
        assert_eq!(called.is_empty(), locked, "{stage}");
        assert_eq!(reply.escalation_reason, locked.then_some(ExplicitRequest), "{stage}");
    }
}

/// STATE-1, STATE-3: the mock reads the very lines that a turn is given.
#[test]
fn the_lines_of_a_turn_are_understood() {
    use crate::config::demo;
    use crate::funnel::Standing;
    use crate::model::prompt::state_lines;
    let tenant = demo::tenant().unwrap();
    let intents = [None, Some(Intent::NotProspect), Some(Intent::Prospect)];
    for (intent, offering) in
        intents.into_iter().flat_map(|intent| [None, Some("weekend-intensive")].map(|id| (intent, id)))
    {
        for stage in Stage::ALL {
            let standing = Standing { intent, stage: Some(*stage), offering: offering.map(str::to_owned) };
            let lines = state_lines(tenant.tools.as_ref(), &standing, Some("foundation"));
            let parts = lines.into_iter().map(Part::Text).collect();
            let asked = request(WITH_OPTIONS, vec![message(MessageRole::User, parts)]);
            let state = Scene::of(&asked).state;
            assert_eq!((state.intent, state.stage, state.offering), (intent, Some(*stage), offering));
            assert!(state.has_offering_line && !state.advert);
        }
    }
}

/// MOCK-9: only what is offered is called, whatever the message asks for; without tools the table answers.
#[test]
fn only_offered_choices_are_called() {
    let ask = || Turn::new(&[], "how do I pay?");
    let (called, reply) = ask().with_tools(vec![send_flow(&FLOWS[..3])]).calls_and_reply();
    assert!(called.is_empty() && reply.escalate, "{called:?}");
    assert_eq!(ask().with_tools(Vec::new()).calls_and_reply().1, reply);
    let first = Turn::new(&[], "a brochure?").with_tools(vec![send_flow(&["glaze_guide", "other"])]);
    assert_eq!(first.calls_and_reply().0, ["send_flow glaze_guide"], "MOCK-10.2 without an offering field");
    let plain = tool("send_flow", json!({ "flow": { "enum": ["enrolment_link"] } }));
    assert_eq!(ask().with_tools(vec![plain]).calls_and_reply().0, ["send_flow enrolment_link"]);
    let tools = vec![send_flow(&FLOWS), set_field(false)];
    let switch = Turn::new(&[PROSPECT], "the advanced one instead").with_tools(tools);
    assert!(switch.calls_and_reply().0.is_empty(), "no offering field, nothing to switch");
    let gone =
        Turn::new(&[PROSPECT, "OFFERING: advanced"], "a brochure").with_tools(vec![send_flow(&FLOWS[..1])]);
    assert!(gone.calls_and_reply().0.is_empty(), "it was sent before");
}

/// MOCK-9: what was called stays intended, though the next step's list no longer holds it.
#[test]
fn a_flow_that_left_the_list_is_not_followed_by_another() {
    let turn = Turn::new(&[], "a brochure?");
    let ask = |tools: &[ToolDefinition], messages: &[ModelMessage]| {
        let tools: Arc<[ToolDefinition]> = tools.to_vec().into();
        answer(ModelRequest { tools, ..request(WITH_OPTIONS, messages.to_vec()) })
    };
    let mut messages = vec![message(MessageRole::User, turn.parts)];
    let ModelOutput::Calls(first) = ask(&[send_flow(&["one", "two"])], &messages) else {
        panic!("must call")
    };
    messages.push(message(MessageRole::Assistant, vec![Part::Calls(first.clone())]));
    let ModelOutput::Calls(second) = ask(&[send_flow(&["two"])], &messages) else { panic!("must call") };
    assert_eq!(second.calls[0].arguments, first.calls[0].arguments);
    assert_ne!(second.calls[0].id, first.calls[0].id, "calls of one turn are told apart");
}

/// MOCK-15: a flow that ManyChat refused is claimed by nobody; a note without news leaves the reply to the table.
#[test]
fn the_note_decides_what_is_claimed() {
    let said = |text: &str, note: &str| {
        let parts = vec![
            message(MessageRole::User, vec![contact(text)]),
            message(MessageRole::StepNote, vec![Part::Text(note.to_owned())]),
        ];
        match answer(request(WITH_OPTIONS, parts)) {
            ModelOutput::Json(object) => parsed(&object),
            other => panic!("{other:?}"),
        }
    };
    let refused = said(
        "the brochure of the foundation course",
        "NOT SENT: send_flow foundation_brochure. ACTIONS: set_field intent=prospect. Write the reply now.",
    );
    assert!(refused.escalate && !refused.text().contains("sending"), "{}", refused.text());
    let link = said("the link", "SENT: send_flow hello_clip, send_flow enrolment_link. Write the reply now.");
    assert_eq!(
        (link.text().as_str(), link.closing_question, link.confidence),
        ("I'm sending you the enrolment link here.", None, 0.9)
    );
    let staged = said(
        "the link",
        "ACTIONS: set_field intent=prospect, send_flow enrolment_link. Write the reply now.",
    );
    assert!(staged.text().contains("enrolment link"), "{}", staged.text());
    let other = said("something", "SENT: send_flow glaze_guide. Write the reply now.");
    assert_eq!(
        (other.text().as_str(), other.closing_question.as_deref()),
        ("I'm sending you the brochure.", Some(MORE))
    );
    for note in [
        "ACTIONS: no call was staged. Write the reply now.",
        "ACTIONS: add_tag likes_foundation. Write the reply now.",
    ] {
        assert!(said("how much?", note).text().contains("$450.00"), "{note}");
    }
}

/// MOCK-16, MOCK-11: a follow-up goes by the contact's last words, and acts on nothing.
#[test]
fn a_follow_up_takes_up_the_last_topic() {
    let trigger = "[no reply from the contact since 2027-01-10T09:00:00Z; write one message, or decline]";
    let follow_up = |before: &str| {
        let said = vec![
            message(MessageRole::User, vec![contact("when is it?")]),
            message(MessageRole::User, vec![contact(before)]),
        ];
        let history =
            [said, vec![message(MessageRole::Assistant, vec![Part::Text("deposit".to_owned())])]].concat();
        let turn = Turn::new(&[UNKNOWN, "FUNNEL: nurturing", trigger], "").without_words();
        Turn { history, ..turn }.calls_and_reply()
    };
    for (before, words) in [("can I pay in instalments", "instalments"), ("what day is it", "class times")] {
        let (called, reply) = follow_up(before);
        assert!(
            called.is_empty() && reply.text().contains(words) && !reply.escalate,
            "{before}: {}",
            reply.text()
        );
        assert!(reply.closing_question.unwrap().ends_with('?'));
    }
    let (_, declined) = follow_up("hello");
    assert_eq!((declined.escalation_reason, declined.confidence), (Some(LowConfidence), 0.4));
}

/// MOCK-8, MOCK-14: a picture wants nothing by itself.
#[test]
fn a_picture_alone_calls_nothing() {
    let mut turn = Turn::new(&[UNKNOWN, "MEDIA: an image with no text"], "").without_words();
    turn.parts.push(picture());
    let (called, reply) = turn.calls_and_reply();
    assert!(called.is_empty() && reply.text().contains("Thanks for the picture"), "{called:?}");
}

/// MOCK-13: a lookup comes before anything else, once.
#[test]
fn a_read_tool_is_asked_once_and_first() {
    let looks = ToolDefinition {
        description: format!("Looks up places.\n{MARK} seatsLeft."),
        ..tool(
            "look_up",
            json!({ "class": { "enum": ["evening", "Weekend"] }, "query": { "type": "string" } }),
        )
    };
    let ask = |text: &str, found: Value| {
        let tools = vec![looks.clone(), send_flow(&FLOWS)];
        Turn { found, ..Turn::new(&[], text).with_tools(tools) }.play()
    };
    let (called, reply) = ask("is there a seat at the weekend?", json!({ "fields": { "seatsLeft": 4 } }));
    assert_eq!(called, ["look_up {\"class\":\"Weekend\"}"]);
    assert!(reply.text().contains("There are 4 places") && reply.confidence == 0.9, "{}", reply.text());
    let (called, reply) = ask("any room?", json!({ "available": false }));
    assert_eq!(called, ["look_up {\"class\":\"evening\"}"]);
    assert_eq!((reply.escalation_reason, reply.confidence), (Some(OutOfScope), 0.85));
    let (_, reply) = ask("when is there space?", json!({ "available": false }));
    assert!(reply.text().contains("Tuesdays"), "{}", reply.text());
    let (called, _) = ask("is there a seat? how do I pay?", json!({ "seatsLeft": 4 }));
    assert_eq!(called.len(), 3);
    assert!(called[0].starts_with("look_up") && called[1] == "send_flow enrolment_link asked", "{called:?}");
    assert!(ask("seated?", json!({})).0.is_empty(), "whole words only");
}

/// 01/MOCK-2: the slow mock thinks over its reply, not over a call.
#[tokio::test(start_paused = true)]
async fn the_slow_mock_calls_at_once() {
    let started = tokio::time::Instant::now();
    let parts = Turn::new(&[PROSPECT], "how do I pay?").parts;
    let ask = request(WITH_OPTIONS, vec![message(MessageRole::User, parts)]);
    let slow = MockModel::new("slow");
    let called = slow.step(ModelRequest { tools: demo_tools().into(), ..ask.clone() }).await.unwrap();
    assert!(matches!(called.output, ModelOutput::Calls(_)) && started.elapsed().is_zero());
    slow.step(ask).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(12_000));
    let switch = MockSwitch::new(Duration::from_secs(1));
    switch.set(MockMood::Failing);
    let failing = MockModel::new("demo").with_switch(Some(switch));
    let parts = Turn::new(&[PROSPECT], "how do I pay?").parts;
    let ask = request(WITH_OPTIONS, vec![message(MessageRole::User, parts)]);
    let failed = failing.step(ModelRequest { tools: demo_tools().into(), ..ask }).await;
    assert_eq!(failed.err(), Some(ModelError::Status(503)), "a failing model calls nothing");
}
