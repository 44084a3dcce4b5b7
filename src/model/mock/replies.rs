//! What the mock model says once it calls nothing more, in the order of MOCK-14, and its replies beside the table.

use serde_json::{Value, json};

use super::as_json;
use super::lookup::{self, Found};
use super::matching::Heard;
use super::note::Note;
use super::rows::{self, MORE, PARTS, Script, TIMES, answer, hand_off};
use super::scene::Scene;
use super::wishes::{self, LINK, OFFERING, STUDENTS};
use crate::domain::EscalationReason;

/// Nothing was found, and nothing else answers (MOCK-13).
pub const NOTHING_FOUND: Script = hand_off(
    EscalationReason::OutOfScope,
    0.85,
    &["I can't look that up right now, so I'm passing you to someone on the team."],
);

/// MOCK-15, in its order.
pub const NOT_BUYING: Script = hand_off(
    EscalationReason::OutOfScope,
    0.9,
    &["That is something for a person on the team. I'm passing your message on."],
);
/// An offering was recorded, and nothing sent.
pub const FITS_BETTER: Script =
    answer(0.9, &["That one does sound like the better fit for you."], "Shall I send you its brochure?");
/// The sale has begun.
pub const QUALIFYING: Script =
    answer(0.9, &["I'm glad to help you find the right course."], "Have you worked with wood before?");
/// The checkout page.
pub const SENDING_LINK: Script = Script {
    messages: &["I'm sending you the enrolment link here."],
    reason: None,
    confidence: 0.9,
    question: None,
};
/// A flow with a past student.
pub const SENDING_STUDENT: Script = answer(0.9, &["I'm sending you something from a past student."], MORE);
/// Any other flow.
pub const SENDING_BROCHURE: Script = answer(0.9, &["I'm sending you the brochure."], MORE);

/// The offering cannot be changed any more (MOCK-14).
pub const LOCKED: Script = hand_off(
    EscalationReason::ExplicitRequest,
    0.9,
    &["A person on the team can change the course for you. I'm passing this on."],
);
/// Nobody knows yet what about (MOCK-14).
pub const WHICH: Script =
    answer(0.88, &["I'm happy to send you something to read."], "Which course is it about?");

/// MOCK-16
pub const AFTER_PARTS: Script = answer(
    0.9,
    &["Hello again! You were thinking about paying in instalments."],
    "Shall I go over them once more?",
);
/// MOCK-16
pub const AFTER_TIMES: Script =
    answer(0.9, &["Hello again! You were asking about the class times."], "Do they fit into your week?");
/// MOCK-16: it declines.
pub const NO_FOLLOW_UP: Script =
    hand_off(EscalationReason::LowConfidence, 0.4, &["There is nothing to follow up here."]);

/// The reply to a request, as the schema wants it.
pub fn reply(scene: &Scene<'_>) -> Value {
    match lookup::found(scene) {
        Some(Found::Seats(seats)) => seats_left(seats),
        Some(Found::Nothing) if scene.heard.any(TIMES) => as_json(rows::table(&scene.heard)),
        Some(Found::Nothing) => as_json(&NOTHING_FOUND),
        None => as_json(script(scene)),
    }
}

/// MOCK-14
fn script(scene: &Scene<'_>) -> &'static Script {
    if let Some(script) = scene.note.as_ref().and_then(after_tools) {
        return script;
    }
    if wishes::switches_to(scene).is_some() && wishes::is_locked(scene) {
        return &LOCKED;
    }
    if wishes::lacks_offering(scene) {
        return &WHICH;
    }
    if scene.follow_up {
        return follow_up(scene.before.as_ref());
    }
    if scene.image_only {
        return &rows::IMAGE_ONLY;
    }
    rows::table(&scene.heard)
}

/// MOCK-15; `None` for a note that says nothing the contact should know.
fn after_tools(note: &Note) -> Option<&'static Script> {
    let has_flow = note.flows().next().is_some();
    if note.has_write("intent=not_prospect") {
        return Some(&NOT_BUYING);
    }
    if note.writes_to(OFFERING) && !has_flow {
        return Some(&FITS_BETTER);
    }
    if note.has_write("funnel_stage=qualifying") {
        return Some(&QUALIFYING);
    }
    if note.has_flow(LINK) {
        return Some(&SENDING_LINK);
    }
    if STUDENTS.iter().any(|flow| note.has_flow(flow)) {
        return Some(&SENDING_STUDENT);
    }
    has_flow.then_some(&SENDING_BROCHURE)
}

/// MOCK-16
fn follow_up(before: Option<&Heard>) -> &'static Script {
    match before {
        Some(heard) if heard.any(PARTS) => &AFTER_PARTS,
        Some(heard) if heard.any(TIMES) => &AFTER_TIMES,
        _ => &NO_FOLLOW_UP,
    }
}

/// MOCK-13
fn seats_left(seats: f64) -> Value {
    json!({
        "messages": [format!("There are {seats} places in that class at the moment.")],
        "escalate": false,
        "escalation_reason": null,
        "confidence": 0.9,
        "closing_question": MORE,
    })
}
