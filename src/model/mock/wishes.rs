//! What the mock model wants to do in a turn, and which call comes next (MOCK-9 to MOCK-13).

use serde_json::{Value, json};

use super::lookup;
use super::matching::Heard;
use super::scene::Scene;
use crate::domain::{Intent, Stage};
use crate::model::port::ToolCall;

const SEND_FLOW: &str = "send_flow";
const SET_FIELD: &str = "set_field";
/// Field ids of the demo tenant (DEMO-3).
const INTENT: &str = "intent";
const STAGE: &str = "funnel_stage";
/// The field with the offering.
pub const OFFERING: &str = "course";
/// The flow with the checkout page.
pub const LINK: &str = "enrolment_link";
/// Flows with a past student, against no time and against doubts.
pub const STUDENTS: [&str; 2] = ["fitting_it_in", "student_results"];
/// Flow with the leaflet of each offering.
const BROCHURES: [(&str, &str); 3] = [
    ("foundation", "foundation_brochure"),
    ("advanced", "advanced_brochure"),
    ("weekend-intensive", "intensive_brochure"),
];

const SWITCH: &[&str] = &["instead", "rather", "switch", "change to", "the one for me", "better for me"];
const MATERIAL: &[&str] = &["brochure", "syllabus", "something to read"];
const PAY: &[&str] = &[
    "the link",
    "sign me up",
    "sign up",
    "enrol me",
    "want to enrol",
    "how do i pay",
    "how can i pay",
    "payment methods",
];
const NO_TIME: &[&str] =
    &["don't have time", "dont have time", "don't have the time", "dont have the time", "no time"];
const DOUBTS: &[&str] = &["not sure i can", "not sure i could", "could never"];
const INTEREST: &[&str] = &["interested", "want to learn", "like to learn"];
/// What shows that somebody means to buy (MOCK-11).
const BUYING: &[&str] = &[
    "price",
    "cost",
    "how much",
    "fee",
    "when",
    "start",
    "schedule",
    "what day",
    "enrol",
    "sign up",
    "syllabus",
    "teach",
    "learn",
    "know more",
    "tell me about",
    "tell me more about",
    "interested",
    "which course",
    "link",
    "pay",
];
/// What shows that somebody came for another reason (MOCK-11).
const NOT_BUYING: &[&str] = &[
    "already enrolled",
    "already taking the course",
    "already taking your course",
    "already doing the course",
    "already doing your course",
    "already on the course",
    "already on your course",
    "former student",
    "we sell",
    "we supply",
    "we distribute",
    "i sell",
    "i supply",
    "looking for a job",
    "looking for job",
    "looking for a work",
    "looking for work",
    "wrong number",
];

/// Something the mock model means to call.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    tool: String,
    /// What tells it apart from other calls of the tool.
    key: Value,
    /// All it gives.
    arguments: Value,
    /// Whether calling it again changes nothing; a lookup is called once.
    repeats: bool,
}

impl Wish {
    /// A lookup with its arguments.
    pub fn lookup(tool: &str, arguments: Value) -> Self {
        Self { tool: tool.to_owned(), key: json!({}), arguments, repeats: false }
    }

    fn write(field: &str, value: &str) -> Self {
        let key = json!({ "field": field, "value": value });
        Self { tool: SET_FIELD.to_owned(), arguments: key.clone(), key, repeats: true }
    }

    /// `contactAsked` where the schema has it: the contact did ask for the link (MOCK-10.3), and for no other flow.
    fn flow(scene: &Scene<'_>, id: &str) -> Self {
        let key = json!({ "flow": id });
        let arguments = match scene.parameter(SEND_FLOW, "contactAsked") {
            Some(_) => json!({ "flow": id, "contactAsked": id == LINK }),
            None => key.clone(),
        };
        Self { tool: SEND_FLOW.to_owned(), key, arguments, repeats: true }
    }

    /// Whether this turn has called it. A model that goes on for another one finds the other's calls in a note (DEC-10).
    fn was_called(&self, scene: &Scene<'_>) -> bool {
        let word = |key: &str| self.key.get(key).and_then(Value::as_str).unwrap_or_default();
        let noted = match self.tool.as_str() {
            SET_FIELD => format!("{}={}", word("field"), word("value")),
            _ => word("flow").to_owned(),
        };
        scene.called.iter().any(|call| self.is(call))
            || scene.note.as_ref().is_some_and(|note| note.has(&self.tool, &noted))
    }

    fn is(&self, call: &ToolCall) -> bool {
        let given = |name: &str| call.arguments.as_ref().and_then(|arguments| arguments.get(name));
        let mut key = self.key.as_object().into_iter().flatten();
        call.name == self.tool && key.all(|(name, value)| given(name) == Some(value))
    }
}

/// MOCK-9: the first wish that this turn has not called, the last one again when all were; nothing in the reply step.
pub fn next_call(scene: &Scene<'_>) -> Option<ToolCall> {
    if scene.tools.is_empty() {
        return None;
    }
    let wishes = wishes(scene);
    let open = wishes.iter().find(|wish| !wish.was_called(scene));
    let wish = open.or_else(|| wishes.last().filter(|last| last.repeats))?;
    Some(ToolCall {
        id: format!("mock-{}", scene.called.len() + 1),
        name: wish.tool.clone(),
        arguments: Some(wish.arguments.clone()),
    })
}

/// All of them, in order. Follow-ups skip the gate, and nobody has asked for anything there (MOCK-11).
fn wishes(scene: &Scene<'_>) -> Vec<Wish> {
    let mut wishes: Vec<Wish> = lookup::wish(scene).into_iter().collect();
    if scene.follow_up {
        return wishes;
    }
    let sale = if scene.has_words { sale(scene) } else { Vec::new() };
    match gate(scene, !sale.is_empty()) {
        Gate::Open => wishes.extend(sale),
        Gate::Opens => {
            wishes.push(Wish::write(INTENT, Intent::Prospect.as_str()));
            wishes.extend(sale);
        }
        Gate::Closes => wishes.push(Wish::write(INTENT, Intent::NotProspect.as_str())),
        Gate::Closed => {}
    }
    wishes
}

/// MOCK-11
enum Gate {
    Open,
    Opens,
    Closes,
    Closed,
}

fn gate(scene: &Scene<'_>, has_sale: bool) -> Gate {
    let state = &scene.state;
    if state.intent == Some(Intent::Prospect) || !can_write(scene, INTENT, Intent::Prospect.as_str()) {
        return Gate::Open;
    }
    let heard = &scene.heard;
    if scene.has_words && is_not_buying(heard) {
        let unknown = state.intent.is_none() && can_write(scene, INTENT, Intent::NotProspect.as_str());
        return if unknown { Gate::Closes } else { Gate::Closed };
    }
    let buys = has_sale || scene.has_words && heard.any(BUYING) || state.advert;
    if buys { Gate::Opens } else { Gate::Closed }
}

fn is_not_buying(heard: &Heard) -> bool {
    let me = ["i'm ", "im ", "i am ", "is "];
    let which = ["", "current ", "former "];
    let one = ["a ", "one of your "];
    let is_student = || {
        me.iter().flat_map(|me| one.iter().map(move |one| (me, one))).any(|(me, one)| {
            which.iter().any(|which| heard.word_starting_with(&format!("{me}{one}{which}student")))
        })
    };
    heard.any(NOT_BUYING) || is_student()
}

/// MOCK-10: the first that matches.
fn sale(scene: &Scene<'_>) -> Vec<Wish> {
    let heard = &scene.heard;
    if let Some(wanted) = switches_to(scene) {
        return if is_locked(scene) { Vec::new() } else { offering(scene, wanted).into_iter().collect() };
    }
    if heard.any(MATERIAL) {
        return material(scene);
    }
    if heard.any(PAY) {
        return flow(scene, LINK).into_iter().collect();
    }
    for (words, id) in [(NO_TIME, STUDENTS[0]), (DOUBTS, STUDENTS[1])] {
        if heard.any(words) {
            return flow(scene, id).into_iter().collect();
        }
    }
    let qualifying = Stage::Qualifying.as_str();
    if heard.any(INTEREST) && !heard.any(&["?"]) && can_write(scene, STAGE, qualifying) {
        return vec![Wish::write(STAGE, qualifying)];
    }
    Vec::new()
}

/// MOCK-10.1: the other offering that the contact wants, where there is an offering field.
pub fn switches_to(scene: &Scene<'_>) -> Option<&'static str> {
    let named = scene.heard.offering()?;
    let wants = has_offering_field(scene) && scene.heard.any(SWITCH);
    (wants && scene.state.offering != Some(named)).then_some(named)
}

/// From `offered` on the offering stays (FN-PR-41).
pub fn is_locked(scene: &Scene<'_>) -> bool {
    scene.state.stage >= Some(Stage::Offered)
}

/// MOCK-10.2
fn material(scene: &Scene<'_>) -> Vec<Wish> {
    if !has_offering_field(scene) {
        let first = || scene.choices(SEND_FLOW, "flow").first().map(|id| Wish::flow(scene, id));
        return called_flow(scene).or_else(first).into_iter().collect();
    }
    let named = scene.heard.offering();
    let Some(known) = named.or(scene.state.offering) else { return Vec::new() };
    let write =
        named.filter(|named| scene.state.offering != Some(named)).and_then(|named| offering(scene, named));
    let brochure = BROCHURES.iter().find(|(id, _)| *id == known).and_then(|(_, id)| flow(scene, id));
    write.into_iter().chain(brochure).collect()
}

/// MOCK-14: somebody wants to read something, and nobody knows about what. In the reply step the tools are gone; there a
/// note without any flow says the same.
pub fn lacks_offering(scene: &Scene<'_>) -> bool {
    let sent_nothing = scene.note.as_ref().is_some_and(|note| note.flows().next().is_none() && !note.refused);
    let known = scene.heard.offering().or(scene.state.offering);
    scene.has_words
        && scene.heard.any(MATERIAL)
        && known.is_none()
        && (has_offering_field(scene) || sent_nothing)
}

fn has_offering_field(scene: &Scene<'_>) -> bool {
    scene.state.has_offering_line || scene.choices(SET_FIELD, "field").contains(&OFFERING)
}

fn offering(scene: &Scene<'_>, id: &str) -> Option<Wish> {
    can_write(scene, OFFERING, id).then(|| Wish::write(OFFERING, id))
}

/// A flow that was sent may be gone from the list in the next step; what was called stays intended.
fn flow(scene: &Scene<'_>, id: &str) -> Option<Wish> {
    let wish = Wish::flow(scene, id);
    let offered = scene.choices(SEND_FLOW, "flow").contains(&id);
    (offered || wish.was_called(scene)).then_some(wish)
}

/// The flow of this turn's earlier call: the first of the list is another one by now.
fn called_flow(scene: &Scene<'_>) -> Option<Wish> {
    let call = scene.called.iter().find(|call| call.name == SEND_FLOW)?;
    let id = call.arguments.as_ref()?.get("flow")?.as_str()?;
    Some(Wish::flow(scene, id))
}

fn can_write(scene: &Scene<'_>, field: &str, value: &str) -> bool {
    let offered = scene.choices(SET_FIELD, "field").contains(&field)
        && scene.choices(SET_FIELD, "value").contains(&value);
    let wish = Wish::write(field, value);
    offered || wish.was_called(scene)
}
