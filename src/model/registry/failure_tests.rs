//! What becomes of a turn for everything a provider can do wrong (01 sections 12 and 14): each row on each wire, from the
//! bytes of the provider to the result of the turn, with planted words that must not come out anywhere.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use super::hosted::{Access, HostedModel};
use super::retry::Backoff;
use super::test_support::{ALL_WIRES, Act, FakeProvider, KEY, SECRET, answer, page, replied, reply_object};
use super::wire::Wire;
use super::{http_client, test_support};
use crate::domain::ContactText;
use crate::model::prompt::SystemPrompt;
use crate::model::runner::{Runner, TurnInput};
use crate::model::spent::Spent;
use crate::model::test_support::{ESCALATION, settings, tenant_with};
use crate::model::{ModelProvider, Usage};

const JSON: &str = "content-type: application/json\r\n";
/// Tokens of each answer that reports any.
const INPUT: u64 = 2000;

/// Something a provider does, and what must become of it.
struct Row {
    what: String,
    act: Act,
    /// FAIL-17
    name: String,
    /// Requests until the turn ends (01/RUN-16).
    requests: u64,
    /// How many of them reported tokens (DEC-19).
    charged: u64,
}

impl Row {
    fn new(what: impl Into<String>, act: Act, name: impl Into<String>, requests: u64) -> Self {
        Self { what: what.into(), act, name: name.into(), requests, charged: 0 }
    }

    fn charged(self) -> Self {
        Self { charged: self.requests, ..self }
    }
}

/// A status, with words of the request and the key in the body, as providers send them.
fn statuses() -> Vec<Row> {
    let body = json!({ "error": { "message": format!("{SECRET} {KEY}"), "type": SECRET } });
    let final_ones = [302, 400, 401, 402, 403, 404, 413, 422, 451].map(|code| (code, 1));
    let transient = [408, 409, 429, 500, 502, 503, 504, 529].map(|code| (code, 3));
    let rows = final_ones.into_iter().chain(transient).map(|(code, requests)| {
        let act = answer(code, &body);
        Row::new(format!("status {code}"), act, format!("provider_status_{code}"), requests)
    });
    rows.collect()
}

/// Gateways charge for calls that their upstream has ended.
fn charged_status(wire: Wire) -> Row {
    let mut body = replied(wire, "");
    body["error"] = json!({ "message": SECRET });
    Row::new("status with tokens", answer(502, &body), "provider_status_502", 3).charged()
}

fn used_up() -> Row {
    let body = json!({ "error": { "code": "insufficient_quota", "message": SECRET } });
    Row::new("quota used up", answer(429, &body), "provider_status_429", 1)
}

/// The failure stands inside an answer with status 200.
fn enclosed(wire: Wire) -> Vec<Row> {
    let error = |error: Value, name: &str, requests| {
        let body = json!({ "type": "error", "error": error });
        Row::new(format!("enclosed {error}"), answer(200, &body), name, requests)
    };
    let mut with_tokens = replied(wire, "");
    with_tokens["error"] = json!({ "message": SECRET, "code": 503 });
    vec![
        error(json!({ "message": SECRET, "code": 429 }), "provider_status_429", 3),
        error(json!({ "message": SECRET, "code": "503" }), "provider_status_503", 3),
        error(json!({ "message": SECRET, "type": "overloaded_error" }), "provider_status_529", 3),
        error(json!({ "message": SECRET, "type": "server_error", "code": null }), "provider_status_500", 3),
        error(json!({ "message": SECRET, "status": "RESOURCE_EXHAUSTED" }), "provider_status_429", 3),
        error(json!({ "message": SECRET, "type": "authentication_error" }), "provider_status_401", 1),
        error(json!({ "message": SECRET, "type": "invalid_request_error" }), "provider_status_400", 1),
        error(json!({ "message": SECRET, "type": SECRET }), "provider_unreachable", 3),
        error(json!(SECRET), "provider_unreachable", 3),
        Row::new("enclosed with tokens", answer(200, &with_tokens), "provider_status_503", 3).charged(),
    ]
}

/// Whatever is no answer of the provider.
fn foreign() -> Vec<Row> {
    let html = format!("<html>{SECRET} {KEY}</html>");
    let whole = reply_object().to_string();
    let acts = [
        ("a page", page("content-type: text/html\r\n", &html)),
        ("JSON of another type", page("content-type: text/plain\r\n", &whole)),
        ("no type", page("", &whole)),
        ("broken JSON", page(JSON, &format!("{{\"{SECRET}"))),
        ("nothing", page(JSON, "")),
        ("a body that ends early", Act::Cut(format!("{{\"a\": \"{SECRET}"))),
        ("packed badly", page("content-type: application/json\r\ncontent-encoding: gzip\r\n", SECRET)),
        ("a connection that closes", Act::Close),
    ];
    acts.into_iter().map(|(what, act)| Row::new(what, act, "provider_unreachable", 3)).collect()
}

/// A key must not follow to another host.
fn redirect() -> Row {
    let headers = "location: http://127.0.0.1:1/elsewhere\r\n";
    let act = Act::Answer { status: 307, headers, body: SECRET.to_owned() };
    Row::new("redirect", act, "provider_status_307", 1)
}

/// The call was answered, but not with a reply.
fn unusable(wire: Wire) -> Vec<Row> {
    let missing = |what: &str, body: &Value| Row::new(what, answer(200, body), "reply_missing", 1).charged();
    let mut rows = vec![
        missing("empty", &stopped(wire, "", finished(wire))),
        missing("blank", &stopped(wire, " \n", finished(wire))),
        missing("refused in the middle", &stopped(wire, SECRET, refusing(wire))),
        missing("nothing before the limit", &stopped(wire, "", limited(wire))),
    ];
    if wire == Wire::OpenAi {
        let mut refusal = replied(wire, "");
        refusal["choices"][0]["message"] = json!({ "role": "assistant", "content": null, "refusal": SECRET });
        rows.push(missing("refusal", &refusal));
        let mut none = replied(wire, "");
        none["choices"] = json!([]);
        rows.push(missing("no choice", &none));
    }
    if wire == Wire::Google {
        let mut blocked = replied(wire, "");
        blocked["candidates"] = Value::Null;
        blocked["promptFeedback"] = json!({ "blockReason": "SAFETY" });
        rows.push(missing("blocked prompt", &blocked));
        rows.push(missing("malformed call", &stopped(wire, "", "MALFORMED_FUNCTION_CALL")));
    }
    let four = json!({ "messages": ["1", "2", "3", "4"], "escalate": false, "escalation_reason": null,
        "confidence": 0.9, "closing_question": null });
    let cut = format!("{{\"messages\": [\"{SECRET}");
    for (what, said) in [
        ("prose", SECRET.to_owned()),
        ("cut by the limit", cut),
        ("another object", json!({ "answer": SECRET }).to_string()),
        ("four messages", four.to_string()),
    ] {
        let body = stopped(wire, &said, if what.starts_with("cut") { limited(wire) } else { finished(wire) });
        rows.push(Row::new(what, answer(200, &body), "reply_invalid", 1).charged());
    }
    let mut uncounted = replied(wire, SECRET);
    uncounted["usage"] = Value::Null;
    uncounted["usageMetadata"] = Value::Null;
    rows.push(Row::new("no tokens reported", answer(200, &uncounted), "reply_invalid", 1));
    rows
}

/// An answer with these words that ended for this reason.
fn stopped(wire: Wire, said: &str, reason: &str) -> Value {
    let mut body = replied(wire, said);
    match wire {
        Wire::Anthropic => body["stop_reason"] = reason.into(),
        Wire::OpenAi | Wire::Ollama => body["choices"][0]["finish_reason"] = reason.into(),
        Wire::Google => body["candidates"][0]["finishReason"] = reason.into(),
    }
    body
}

const fn finished(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "end_turn",
        Wire::OpenAi | Wire::Ollama => "stop",
        Wire::Google => "STOP",
    }
}

const fn refusing(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "refusal",
        Wire::OpenAi | Wire::Ollama => "content_filter",
        Wire::Google => "SAFETY",
    }
}

const fn limited(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "max_tokens",
        Wire::OpenAi | Wire::Ollama => "length",
        Wire::Google => "MAX_TOKENS",
    }
}

fn rows(wire: Wire) -> Vec<Row> {
    let mut rows = statuses();
    rows.extend([charged_status(wire), used_up(), redirect()]);
    rows.extend(enclosed(wire));
    rows.extend(foreign());
    rows.extend(unusable(wire));
    rows
}

/// A turn whose prompt, history and message hold the planted words.
fn turn() -> TurnInput {
    let tenant = Arc::new(tenant_with(|tenant| tenant.prompt = SECRET.to_owned()));
    TurnInput {
        system: SystemPrompt::build(&tenant),
        tenant,
        state_lines: vec![SECRET.to_owned()],
        texts: vec![ContactText::new(SECRET)],
        history: Vec::new(),
        tools: None,
        spent: Spent::default(),
    }
}

fn runner_of(wire: Wire, model: HostedModel) -> Runner {
    let settings = settings(wire.provider(), "some-model");
    let provider: Arc<dyn ModelProvider> = Arc::new(model);
    Runner::new(provider, &settings.agent, &settings)
}

/// FAIL-2, FAIL-3, FAIL-13, FAIL-17, 01/RUN-16, USE-1, DEC-19, PRIN-C5, ENV-26: every row on every wire is the handoff with
/// the name of its failure, tried again only where that can help, charged with what was reported; and neither log nor
/// result hold a word of the prompt, the provider or the key.
#[tokio::test]
async fn every_failure_becomes_a_named_handoff() {
    let heard = Heard::default();
    let _listening = tracing::subscriber::set_default(Registry::default().with(heard.clone()));
    for wire in ALL_WIRES {
        for row in rows(wire) {
            let place = format!("{wire:?}: {}", row.what);
            let fake = FakeProvider::start(vec![row.act.clone()]).await;
            let result = runner_of(wire, fake.model(wire, "some-model")).run(turn()).await;
            assert_eq!(result.error.as_deref(), Some(row.name.as_str()), "{place}");
            assert_eq!(result.interventions, [format!("model_error: {}", row.name)], "{place}");
            assert_eq!(result.reply.messages, [ESCALATION], "{place}");
            assert_eq!(fake.asked().len() as u64, row.requests, "{place}");
            let tokens = (row.charged > 0).then_some(INPUT * row.charged);
            assert_eq!(result.usage.input, tokens, "{place}");
            assert_eq!(result.cost.get().is_zero(), tokens.is_none() || wire == Wire::Ollama, "{place}");
            heard.holds_nothing(&format!("{result:?}"), &place);
        }
    }
    heard.holds_nothing("", "the log");
}

/// FAIL-2, FAIL-17: no connection at all.
#[tokio::test]
async fn nobody_there_is_unreachable() {
    test_support::install_tls_provider();
    for address in ["http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1"] {
        for wire in ALL_WIRES {
            let access = Access { base_url: address, key: KEY };
            let model = HostedModel::new(wire, "some-model", access, http_client().unwrap()).unwrap();
            let quick = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(9) };
            let result = runner_of(wire, model.with_backoff(quick)).run(turn()).await;
            assert_eq!(result.error.as_deref(), Some("provider_unreachable"), "{wire:?} {address}");
            assert_eq!((result.usage, result.cost.get().is_zero()), (Usage::default(), true));
        }
    }
}

/// A good answer of `wire`.
fn good(wire: Wire) -> Act {
    answer(200, &replied(wire, &reply_object().to_string()))
}

/// An answer of `wire` that fails and reports tokens.
fn failing_with_tokens(wire: Wire) -> Act {
    let mut body = replied(wire, "");
    body["error"] = json!({ "code": 503 });
    answer(200, &body)
}

/// FAIL-13, DEC-19: what a failed attempt reported is charged together with the answer that came after it.
#[tokio::test]
async fn the_tokens_of_a_retried_attempt_are_charged() {
    for wire in ALL_WIRES {
        let fake = FakeProvider::start(vec![failing_with_tokens(wire), good(wire)]).await;
        let result = runner_of(wire, fake.model(wire, "some-model")).run(turn()).await;
        assert_eq!((result.error, fake.asked().len()), (None, 2), "{wire:?}");
        assert_eq!((result.usage.input, result.usage.output), (Some(2 * INPUT), Some(200)), "{wire:?}");
    }
}

/// FAIL-13, DEC-10, DEC-19, USE-3: the first model's tokens are charged at its prices, the fallback's at its own.
#[tokio::test]
async fn the_first_models_tokens_are_charged_when_the_fallback_answers() {
    let failing = FakeProvider::start(vec![failing_with_tokens(Wire::OpenAi)]).await;
    let answering = FakeProvider::start(vec![good(Wire::Anthropic)]).await;
    let openai = settings(Wire::OpenAi.provider(), "gpt-4o-mini");
    let anthropic = settings(Wire::Anthropic.provider(), "claude-haiku-4-5");
    let first = Arc::new(failing.model(Wire::OpenAi, "gpt-4o-mini"));
    let second = Arc::new(answering.model(Wire::Anthropic, "claude-haiku-4-5"));
    let runner =
        Runner::new(first, &openai.agent, &openai).with_fallback(second, &anthropic.agent, &anthropic);
    let result = runner.run(turn()).await;
    assert_eq!((result.model.as_str(), result.error), ("anthropic:claude-haiku-4-5", None));
    assert_eq!(result.usage.input, Some(4 * INPUT), "three attempts and the answer");
    // Three times 200 fresh at 5, 1800 read at 0.5, 100 out at 25; once as `USE-5`, with 50 written at 1.25.
    assert_eq!(result.cost.get().normalize().to_string(), "0.014092");
}

/// FAIL-13, DEC-19, 01/RUN-13: a turn that is aborted during a retry is charged with what the attempt before reported.
#[tokio::test]
async fn an_aborted_turn_is_charged_with_what_was_reported() {
    let fake = FakeProvider::start(vec![failing_with_tokens(Wire::OpenAi), Act::Hang]).await;
    let runner = runner_of(Wire::OpenAi, fake.model(Wire::OpenAi, "some-model"));
    let input = turn();
    let spent = input.spent.clone();
    let mut running = Box::pin(runner.run(input));
    let hangs = async {
        while fake.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        result = &mut running => panic!("the provider hangs: {result:?}"),
        () = hangs => {}
    }
    drop(running);
    assert_eq!(spent.bill().usage.input, Some(INPUT));
    assert!(!spent.bill().cost.get().is_zero());
}

/// Keeps what this crate logs.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<String>>);

impl Heard {
    fn holds_nothing(&self, besides: &str, place: &str) {
        let log = self.0.lock().unwrap();
        for text in [log.as_str(), besides] {
            assert!(!text.contains(SECRET) && !text.contains(KEY), "{place}: {text}");
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Heard {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        // Of libraries the product's own layer shows no words.
        if event.metadata().target().starts_with("manychat_agent") {
            event.record(&mut Words(&mut self.0.lock().unwrap()));
        }
    }
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}
