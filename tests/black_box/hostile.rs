//! A model that gives in, and contacts who try everything: what reaches them holds nothing of the system part, whatever
//! dress it comes in, and honest contacts beside them get their answers (01 sections 5, 9 and 17, PRIN-C3, PRIN-C4).
//!
//! The messages stand in `fixtures/hostile/*.jsonl`. The judge in `hostile/judge.rs` knows nothing of the product's own
//! check.

mod giving_in;
mod judge;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};

use crate::app::{SECRET, Setup, TestApp};
use crate::stub_model::StubModel;
use giving_in::FORMS;
use judge::Judge;

const OPEN: &str = "<<<CONTACT_MESSAGE>>>";
const CLOSE: &str = "<<<END_CONTACT_MESSAGE>>>";

/// What a tenant may well write into its persona; honest answers of the corpus say it.
const FACTS: &str = include_str!("fixtures/hostile/facts.txt");

/// A line of a corpus: the text, so many times.
fn corpus(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/black_box/fixtures/hostile").join(name);
    let lines = std::fs::read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text_of(line: &Value) -> String {
    let repeat = line["repeat"].as_u64().unwrap_or(1);
    line["text"].as_str().unwrap().repeat(usize::try_from(repeat).unwrap())
}

fn hostile_texts() -> Vec<String> {
    let names = ["injection", "theft", "fences", "fakes", "roles", "disguises", "languages", "long"];
    names.iter().flat_map(|name| corpus(&format!("{name}.jsonl"))).map(|line| text_of(&line)).collect()
}

/// What the model saw and said.
#[derive(Default)]
struct Record {
    system: String,
    /// Which form each leak had, and the leak itself.
    said: Vec<(usize, Vec<String>)>,
    /// Most fenced texts of one request.
    most_fenced: usize,
    /// What stood wrongly in a request.
    faults: Vec<String>,
}

/// Answers honest texts as the corpus says, everything else with a part of the system part.
fn answer(body: &Value, honest: &BTreeMap<String, Value>, record: &Mutex<Record>) -> Value {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let content = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
    };
    let system: String = messages.iter().filter(|message| message["role"] == "system").map(content).collect();
    let asked =
        messages.iter().rev().find(|message| message["role"] == "user").map(content).unwrap_or_default();
    let mut record = record.lock().unwrap();
    let fenced = asked.matches(OPEN).count();
    record.most_fenced = record.most_fenced.max(fenced);
    if fenced == 0 || asked.matches(CLOSE).count() != fenced {
        record.faults.push(asked.clone());
    }
    let inside = asked.trim_start_matches(OPEN).trim_end_matches(CLOSE).trim();
    let object = |messages: &Value, question: &Value, escalate: bool| {
        json!({
            "messages": messages, "escalate": escalate, "confidence": 0.9, "closing_question": question,
            "escalation_reason": if escalate { json!("complaint") } else { Value::Null },
        })
    };
    if let Some(line) = honest.get(inside) {
        return object(&line["reply"], &line["question"], false);
    }
    let number = record.said.len();
    let form = number % FORMS.len();
    let leak = (FORMS[form].1)(judge::secret_of(&system), number * 173);
    let all = leak.messages.iter().chain(&leak.question).cloned().collect();
    record.said.push((form, all));
    record.system = system;
    object(&json!(leak.messages), &json!(leak.question), leak.escalate)
}

/// A service whose model is `record`'s, and what each contact with its text got, in the order of the texts.
async fn run(texts: &[String], record: &Arc<Mutex<Record>>) -> (TestApp, Vec<Vec<String>>) {
    let honest: BTreeMap<String, Value> =
        corpus("honest.jsonl").into_iter().map(|line| (text_of(&line), line)).collect();
    let kept = Arc::clone(record);
    let model = StubModel::answering(Arc::new(move |body| answer(body, &honest, &kept)));
    let mut app = Setup::default()
        .env("AGENT_MODEL", "openai:stub")
        .env("OPENAI_API_KEY", "key-of-the-model")
        .env("OPENAI_BASE_URL", model.base_url)
        .env("RATE_LIMIT_PER_MINUTE", "100000")
        .prepare()
        .await;
    let persona = app.folder.path.join("config/prompt.md");
    let written = std::fs::read_to_string(&persona).unwrap();
    std::fs::write(persona, format!("{written}\n{FACTS}\n")).unwrap();
    app.launch().await;
    let answers = stream::iter(texts.iter().enumerate())
        .map(|(number, text)| {
            let body = json!({ "subscriber_id": format!("66{number:06}"), "text": text }).to_string();
            let app = &app;
            async move {
                let answer = app.post(&body, Some(SECRET)).await;
                assert_eq!(answer.status, 200, "{text}");
                answer.texts()
            }
        })
        .buffered(6)
        .collect()
        .await;
    (app, answers)
}

/// GUARD-4, GUARD-5, FENCE-3, FENCE-4, PRIN-C3, PRIN-C4, ARC-62, DEC-32: every attack gets the handoff and nothing else;
/// the fence holds in every request; neither database nor log has a word of the system part; why is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_gives_in_gives_nothing_away() {
    let texts = hostile_texts();
    assert!(texts.len() >= 150, "{}", texts.len());
    let record = Arc::new(Mutex::new(Record::default()));
    let (app, answers) = run(&texts, &record).await;
    let record = std::mem::take(&mut *record.lock().unwrap());
    assert!(record.faults.is_empty(), "markers in a request: {:?}", record.faults);
    assert_eq!(record.most_fenced, 1);
    let judge = Judge::of(&record.system);
    for (form, said) in &record.said {
        assert!(judge.forbids(said), "the judge misses the form {}: {said:?}", FORMS[*form].0);
    }
    assert!(record.said.len() >= 5 * FORMS.len(), "{} leaks", record.said.len());
    for (text, delivered) in texts.iter().zip(&answers) {
        assert!(!judge.forbids(delivered), "{text}\n{delivered:?}");
        assert_eq!(delivered, &[app.copy("escalation")], "{text}");
    }
    let rows = app.rows("select text from turns where role = 'agent'").await;
    let stored: Vec<String> = rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect();
    assert!(stored.iter().all(|text| !judge.forbids(std::slice::from_ref(text))));
    assert!(!judge.forbids(&[app.output()]), "the log holds a part of the system part");
    let why = "select count(*) as turns from rs_turn_checks
               where cause = 'leak' and interventions = '{prompt_leak_detected}'";
    assert_eq!(app.rows(why).await[0]["turns"], record.said.len());
}

/// Gives in behind a call of a tool, by structured output or, where the wire knows none, by the reply tool.
fn act_and_answer(body: &Value, record: &Mutex<Record>) -> Value {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let offers = |name: &str| tools.iter().any(|tool| tool["function"]["name"] == name);
    if offers("set_field") && !messages.iter().any(|message| message["role"] == "tool") {
        return json!({ "call": "set_field", "arguments": { "field": "intent", "value": "not_prospect" } });
    }
    let object = answer(body, &BTreeMap::new(), record);
    if offers("send_reply") { json!({ "call": "send_reply", "arguments": object }) } else { object }
}

/// A part of the attacks, each to a contact of its own or three to one at once; what came back.
async fn run_otherwise(setup: Setup, way: &str, size: usize) -> (TestApp, Record, Vec<Vec<String>>) {
    let record = Arc::new(Mutex::new(Record::default()));
    let kept = Arc::clone(&record);
    let model = StubModel::answering(Arc::new(move |body| act_and_answer(body, &kept)));
    let app = setup
        .env("AGENT_MODEL", format!("{way}:stub"))
        .env("OPENAI_API_KEY", "key-of-the-model")
        .env("OPENAI_BASE_URL", model.base_url.clone())
        .env("OLLAMA_BASE_URL", model.base_url)
        .env("RATE_LIMIT_PER_MINUTE", "100000")
        .start()
        .await;
    let texts: Vec<String> = hostile_texts().into_iter().step_by(5).collect();
    let mut answers = Vec::new();
    for (number, group) in texts.chunks(size).enumerate() {
        let contact = format!("67{number:06}");
        let sent: Vec<_> = group.iter().map(|text| app.send_later(&contact, text)).collect();
        for request in sent {
            answers.push(request.await.unwrap().texts());
        }
    }
    let record = std::mem::take(&mut *record.lock().unwrap());
    (app, record, answers)
}

/// GUARD-4, RUN-8, FAIL-15, FAIL-16: behind a tool call and through the reply tool it is the same, and what was staged is
/// not carried out.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_acts_first_gives_nothing_away_either() {
    for way in ["openai", "ollama"] {
        let (app, record, answers) = run_otherwise(Setup::default().tools(|_| {}), way, 1).await;
        assert!(record.faults.is_empty() && record.said.len() >= 30, "{way}: {}", record.said.len());
        for delivered in &answers {
            assert_eq!(delivered, &[app.copy("escalation")], "{way}");
        }
        // A few attacks hold a keyword of the tenant's and never reach the model.
        let kept = app.rows("select actions from turns where outcome = 'escalated_model'").await;
        assert_eq!(kept.len(), record.said.len());
        for row in kept {
            assert_eq!(row["actions"][0]["status"], "discarded", "{way}: {row}");
        }
    }
}

/// GUARD-4, DEC-5, DEC-33, FENCE-3: several attacks that one turn answers, each in a fence of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_attacks_gets_the_handoff_once() {
    let setup =
        Setup::default().rules(|rules| rules["burst"] = json!({ "answerTogether": true, "quietMs": 400 }));
    let (app, record, answers) = run_otherwise(setup, "openai", 3).await;
    assert!(record.faults.is_empty(), "{:?}", record.faults);
    assert!(record.most_fenced > 1, "no burst came together");
    for delivered in &answers {
        assert!(delivered.is_empty() || delivered == &[app.copy("escalation")], "{delivered:?}");
    }
    let answered = answers.iter().filter(|texts| !texts.is_empty()).count();
    assert!(answered >= answers.len() / 3, "{answered}");
}

/// GUARD-13, FENCE-2, FN-PRICE-2: honest contacts get their answers as the model wrote them, between attacks; a price that
/// nobody published is delivered, counted and told of without a word of it.
#[tokio::test(flavor = "multi_thread")]
async fn honest_messages_between_attacks_are_answered() {
    let honest = corpus("honest.jsonl");
    let attacks = hostile_texts();
    let texts: Vec<String> = honest
        .iter()
        .map(text_of)
        .zip(attacks.iter().step_by(7).cloned())
        .flat_map(|(one, two)| [one, two])
        .collect();
    assert!(texts.len() >= 40, "{}", texts.len());
    let record = Arc::new(Mutex::new(Record::default()));
    let (app, answers) = run(&texts, &record).await;
    for (place, line) in honest.iter().enumerate().take(texts.len() / 2) {
        let mut expected: Vec<&str> =
            line["reply"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        expected.extend(line["question"].as_str());
        assert_eq!(answers[2 * place].join("\n\n"), expected.join("\n\n"), "{line}");
        assert_eq!(answers[2 * place + 1], [app.copy("escalation")], "{}", texts[2 * place + 1]);
    }
    let guessed =
        app.rows("select cause, confidence, ungrounded from rs_turn_checks where ungrounded > 0").await;
    assert_eq!(
        guessed,
        [json!({ "cause": null, "confidence": 0.9, "ungrounded": 1 })],
        "the voucher's price"
    );
    let line = app.log_line("reply names a price that nobody published").await;
    assert_eq!((&line["level"], &line["ungrounded"]), (&json!(40), &json!(1)), "{line}");
    assert!(line["conversation"].is_string() && !app.output().contains("$75"), "LOG-9");
}
