//! Trials of one model for `agent model check`: a reply, a call of a tool, a reply after it, a picture. Small requests of our
//! own, which hold nothing of the tenant, over the same port as turns.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::candidate::takes_temperature;
use super::fence::FencedText;
use super::meter::Meter;
use super::port::{
    Image, MessageRole, ModelError, ModelMessage, ModelOutput, ModelRequest, Part, ToolCalls, ToolResult,
};
use super::pricing::Prices;
use super::registry::{self, LoneModel, RegistryError};
use super::reply::{self, Bounds, Reply};
use super::slots::Place;
use super::spent::{Bill, Spent};
use crate::config::{ModelName, ModelSettings};
use crate::domain::Provider;
use crate::tools::ToolDefinition;

const SYSTEM: &str = "You help to check whether a connection works. Answer in English with one short message, without \
                      escalating, with a confidence of 0.9 and without a closing question.";
/// A red square of 64 by 64 pixels.
const PICTURE: &[u8] = include_bytes!("trial_picture.png");
const TOOL: &str = "note_colour";
const COLOUR: &str = "green";
const NO_TOOLS: &str =
    "the provider refused tools as such: turns are answered without any, and nothing is ever done";

/// What a model is tried with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// A reply by the schema of every turn (RUN-3).
    Reply,
    /// A call of a tool (RUN-4).
    Tool,
    /// A reply once the call of [`Self::Tool`] is answered: what the provider wants back with a result has to be right.
    Result,
    /// A reply to a picture.
    Picture,
}

impl Trial {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Reply, Self::Tool, Self::Result, Self::Picture];

    /// One word for a report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Tool => "tool",
            Self::Result => "result",
            Self::Picture => "picture",
        }
    }

    const fn has_tool(self) -> bool {
        matches!(self, Self::Tool | Self::Result)
    }
}

/// What came of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It works.
    Passed,
    /// It does not.
    Failed {
        /// What is wrong and what to look at.
        reason: String,
        /// What the connection or the provider says, without the key. It can quote the request: for a terminal, never for a
        /// log.
        words: Option<String>,
    },
    /// It was not tried; why.
    Skipped(&'static str),
}

/// A trial with what it took.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// What was tried.
    pub trial: Trial,
    /// What came of it.
    pub verdict: Verdict,
    /// Tokens and cost.
    pub bill: Bill,
    /// Time, retries included.
    pub latency: Duration,
}

/// A model that can be tried.
pub struct TrialModel {
    model: LoneModel,
    name: ModelName,
    settings: ModelSettings,
    /// What it called in its last trial with a tool.
    called: Mutex<Option<ToolCalls>>,
}

impl TrialModel {
    /// The model of that name with the keys, addresses and limits of `settings`.
    ///
    /// # Errors
    /// [`RegistryError`]: a key that cannot be sent, or no HTTP client.
    pub fn new(settings: &ModelSettings, name: &ModelName) -> Result<Self, RegistryError> {
        let model = registry::alone(settings, name)?;
        Ok(Self { model, name: name.clone(), settings: settings.clone(), called: Mutex::default() })
    }

    /// Tries one thing, for at most `limit`.
    pub async fn run(&self, trial: Trial, limit: Duration) -> Finding {
        let begun = Instant::now();
        let spent = Spent::default();
        let verdict = match self.skips(trial) {
            Some(why) => Verdict::Skipped(why),
            None => self.ask(trial, limit, &spent).await,
        };
        Finding { trial, verdict, bill: spent.bill(), latency: begun.elapsed() }
    }

    fn skips(&self, trial: Trial) -> Option<&'static str> {
        match (self.name.provider, trial) {
            (_, Trial::Reply) => None,
            (Provider::Mock, _) => Some("the mock model is in the process: there is nothing to try"),
            (_, Trial::Result) if self.called().is_none() => {
                Some("no call of a tool came that can be answered")
            }
            (_, Trial::Picture) if !registry::takes_images(&self.name) => {
                Some("this model is not shown pictures")
            }
            _ => None,
        }
    }

    async fn ask(&self, trial: Trial, limit: Duration, spent: &Spent) -> Verdict {
        let name = self.name.as_string();
        spent.ask(&name, trial.has_tool());
        let prices = Prices::of(&name, self.settings.pricing_overrides.as_ref());
        let meter = Meter::of(spent).at(prices);
        let request = self.request(trial, limit, &meter);
        let answered = tokio::time::timeout(limit, self.model.provider().step(request)).await;
        let judged = match answered {
            Err(_) => Err(format!("no answer within {} ms (MODEL_ABORT_MS)", limit.as_millis())),
            Ok(Err(error)) => Err(told(&error)),
            Ok(Ok(answer)) => {
                meter.add(&answer.usage);
                let is_toolless = trial.has_tool() && !spent.bill().tools_offered;
                if is_toolless { Err(NO_TOOLS.to_owned()) } else { self.judged(trial, answer.output) }
            }
        };
        match judged {
            Ok(()) => Verdict::Passed,
            Err(reason) => Verdict::Failed { reason, words: self.model.last_words() },
        }
    }

    fn judged(&self, trial: Trial, output: ModelOutput) -> Result<(), String> {
        let calls = match &output {
            ModelOutput::Calls(calls) if trial == Trial::Tool => Some(calls.clone()),
            _ => None,
        };
        judge(trial, output)?;
        if calls.is_some() {
            *self.called.lock().unwrap_or_else(PoisonError::into_inner) = calls;
        }
        Ok(())
    }

    fn called(&self) -> Option<ToolCalls> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn messages(&self, trial: Trial) -> Vec<ModelMessage> {
        let asked = ModelMessage { role: MessageRole::User, parts: parts(trial) };
        match (trial, self.called()) {
            (Trial::Result, Some(calls)) => [vec![asked], answered(calls)].concat(),
            _ => vec![asked],
        }
    }

    fn request(&self, trial: Trial, limit: Duration, meter: &Meter) -> ModelRequest {
        let takes_temperature = takes_temperature(&self.name);
        ModelRequest {
            system: SYSTEM.into(),
            messages: self.messages(trial),
            response_schema: reply::schema(),
            tools: if trial.has_tool() { Arc::new([tool()]) } else { Arc::new([]) },
            max_output_tokens: self.settings.max_output_tokens,
            temperature: takes_temperature.then_some(self.settings.temperature),
            reasoning_effort: self.settings.reasoning_effort,
            meter: meter.clone(),
            retry_within: Some(limit),
            place: Place::default(),
        }
    }
}

fn parts(trial: Trial) -> Vec<Part> {
    let said = |words: &str| Part::Contact(FencedText::new(words));
    match trial {
        Trial::Reply => vec![said("Please say hello.")],
        Trial::Tool | Trial::Result => {
            vec![said(&format!("Please note the colour {COLOUR}: call the tool before you answer."))]
        }
        Trial::Picture => {
            let image = Image { media_type: "image/png".to_owned(), bytes: Bytes::from_static(PICTURE) };
            vec![Part::Image(image), said("Which colour has this picture?")]
        }
    }
}

/// The calls and one result for each, in their order (LOOP-6).
fn answered(calls: ToolCalls) -> Vec<ModelMessage> {
    let results = calls.calls.iter().map(|call| {
        Part::Result(ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: json!({ "noted": true }),
            is_error: false,
        })
    });
    let results = ModelMessage { role: MessageRole::ToolResults, parts: results.collect() };
    vec![ModelMessage { role: MessageRole::Assistant, parts: vec![Part::Calls(calls)] }, results]
}

fn tool() -> ToolDefinition {
    ToolDefinition {
        name: TOOL,
        description: "Notes a colour. Call it once, before you answer.".to_owned(),
        parameters: Arc::new(json!({
            "type": "object",
            "properties": { "colour": { "type": "string", "enum": [COLOUR, "blue"] } },
            "required": ["colour"],
        })),
    }
}

fn judge(trial: Trial, output: ModelOutput) -> Result<(), String> {
    match (trial, output) {
        (Trial::Tool, ModelOutput::Calls(calls)) => {
            let fits = |arguments: &Value| arguments["colour"] == COLOUR;
            let good =
                calls.calls.iter().any(|call| call.name == TOOL && call.arguments.as_ref().is_some_and(fits));
            good.then_some(()).ok_or_else(|| "the tool was called, but not as its parameters say".to_owned())
        }
        (Trial::Tool, ModelOutput::Missing) => Err(told(&ModelError::ReplyMissing)),
        (Trial::Tool, _) => Err("the model answered without calling the tool it was told to call".to_owned()),
        (_, ModelOutput::Json(object)) => fits(&object),
        (_, ModelOutput::Text(text)) => {
            let object = serde_json::from_str(&text);
            object
                .map_err(|_| "reply_invalid: the reply is no JSON".to_owned())
                .and_then(|object| fits(&object))
        }
        (Trial::Result, ModelOutput::Calls(_)) => {
            Err("the model called again instead of replying once its call was answered".to_owned())
        }
        (_, ModelOutput::Calls(_)) => Err("the model called a tool that it was not offered".to_owned()),
        (_, ModelOutput::Missing) => Err(told(&ModelError::ReplyMissing)),
    }
}

fn fits(object: &Value) -> Result<(), String> {
    Reply::parse(object, Bounds::Model).map(|_| ()).map_err(|faults| told(&ModelError::ReplyInvalid(faults)))
}

/// The name a turn's log would have, and what to do.
fn told(error: &ModelError) -> String {
    format!("{}: {error}", error.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::port::ToolCall;
    use crate::model::test_support::settings;

    fn called(name: &str, arguments: Option<Value>) -> ModelOutput {
        let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments };
        ModelOutput::Calls(ToolCalls { calls: vec![call], opaque: None })
    }

    /// 01/RUN-4, 01/RUN-7: only a call of the tool with what its parameters allow passes.
    #[test]
    fn a_tool_trial_wants_the_call() {
        assert_eq!(judge(Trial::Tool, called(TOOL, Some(json!({ "colour": "green" })))), Ok(()));
        for output in [
            called(TOOL, Some(json!({ "colour": "red" }))),
            called(TOOL, None),
            called("other", Some(json!({ "colour": "green" }))),
            ModelOutput::Text("green".to_owned()),
            ModelOutput::Missing,
        ] {
            assert!(judge(Trial::Tool, output.clone()).is_err(), "{output:?}");
        }
    }

    /// 01/RUN-3: the other trials want a reply.
    #[test]
    fn the_other_trials_want_a_reply() {
        let reply = json!({ "messages": ["Hello."], "escalate": false, "escalation_reason": null, "confidence": 0.9,
            "closing_question": null });
        for trial in [Trial::Reply, Trial::Result, Trial::Picture] {
            assert_eq!(judge(trial, ModelOutput::Text(reply.to_string())), Ok(()));
            assert_eq!(judge(trial, ModelOutput::Json(reply.clone())), Ok(()));
            for (output, name) in [
                (ModelOutput::Text("Hello.".to_owned()), "reply_invalid"),
                (ModelOutput::Json(json!({ "messages": [] })), "reply_invalid"),
                (ModelOutput::Missing, "reply_missing"),
            ] {
                assert!(judge(trial, output).unwrap_err().starts_with(name), "{trial:?} {name}");
            }
            assert!(judge(trial, called(TOOL, Some(json!({ "colour": "green" })))).is_err(), "{trial:?}");
        }
    }

    /// The mock needs no key and no network, and is tried with a reply only.
    #[tokio::test]
    async fn the_mock_is_tried_with_a_reply() {
        let settings = settings(Provider::Mock, "demo");
        let model = TrialModel::new(&settings, &settings.agent).unwrap();
        let mut passed = Vec::new();
        for trial in Trial::ALL {
            let finding = model.run(trial, Duration::from_secs(5)).await;
            passed.push(finding.verdict == Verdict::Passed);
            let skipped = matches!(finding.verdict, Verdict::Skipped(_));
            assert_eq!(finding.bill == Bill::default(), skipped, "{finding:?}");
        }
        assert_eq!(passed, [true, false, false, false]);
    }

    /// LOOP-6: a result goes back behind the call it answers, each with the call's own id.
    #[test]
    fn a_result_goes_back_behind_its_call() {
        let ModelOutput::Calls(calls) = called(TOOL, Some(json!({ "colour": "green" }))) else { panic!() };
        let [before, behind] = &answered(calls.clone())[..] else { panic!("two messages") };
        assert_eq!((before.role, behind.role), (MessageRole::Assistant, MessageRole::ToolResults));
        assert_eq!(before.parts, [Part::Calls(calls)]);
        let Part::Result(result) = &behind.parts[0] else { panic!("a result") };
        assert_eq!((result.call_id.as_str(), result.name.as_str(), result.is_error), ("1", TOOL, false));
    }
}
