//! What becomes of each answer and each failure (01 section 14).

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Wire;
use crate::model::port::{ModelAnswer, ModelError, ModelOutput, ModelProvider, Usage};
use crate::model::registry::hosted::{Access, HostedModel};
use crate::model::registry::http_client;
use crate::model::registry::test_support::{
    ALL_WIRES, Act, FakeProvider, SECRET, answer, install_tls_provider, replied, reply_object, request,
};

const USAGE: Usage =
    Usage { input: Some(2000), output: Some(100), cache_read: Some(1800), cache_write: None };

/// What the port gives for the acts, and how many requests that took.
async fn outcome(wire: Wire, acts: Vec<Act>) -> (Result<ModelAnswer, ModelError>, usize) {
    let fake = FakeProvider::start(acts).await;
    let outcome = fake.model(wire, "some-model").step(request()).await;
    (outcome, fake.asked().len())
}

async fn answered(wire: Wire, body: &Value) -> ModelAnswer {
    let (outcome, requests) = outcome(wire, vec![answer(200, body)]).await;
    assert_eq!(requests, 1, "{wire:?}: {body}");
    outcome.unwrap()
}

/// 01/RUN-3, USE-1, USE-2: the reply, and tokens that mean the same whoever reports them.
#[tokio::test]
async fn a_reply_comes_with_its_tokens() {
    for wire in ALL_WIRES {
        let answered = answered(wire, &replied(wire, &reply_object().to_string())).await;
        let expected = match wire {
            Wire::Ollama => Usage { cache_read: Some(0), ..USAGE },
            // Anthropic charges for what it writes to the cache, and says how much that was.
            Wire::Anthropic => Usage { cache_write: Some(50), ..USAGE },
            Wire::OpenAi | Wire::Google => USAGE,
        };
        assert_eq!(answered.usage, expected, "{wire:?}");
        let ModelOutput::Text(text) = answered.output else { panic!("{wire:?}: {:?}", answered.output) };
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), reply_object(), "{wire:?}");
    }
}

/// USE-1, USE-2: some gateways write whole numbers as fractions; a count that is none stays unknown.
#[tokio::test]
async fn tokens_written_as_fractions_are_counted() {
    for wire in ALL_WIRES {
        let mut body = replied(wire, &reply_object().to_string());
        for usage in ["usage", "usageMetadata"] {
            let Some(Value::Object(counts)) = body.get_mut(usage) else { continue };
            for count in counts.values_mut().filter(|count| count.is_u64()) {
                *count = json!(count.as_f64());
            }
        }
        let answered = answered(wire, &body).await;
        assert!(matches!(answered.output, ModelOutput::Text(_)), "{wire:?}: {:?}", answered.output);
        assert_eq!((answered.usage.input, answered.usage.output), (Some(2000), Some(100)), "{wire:?}");
    }
    for odd in [json!(7.5), json!(-7.0), json!(1e300), json!("7")] {
        let mut body = replied(Wire::OpenAi, "text");
        body["usage"] = json!({ "prompt_tokens": odd, "completion_tokens": 3.0 });
        let usage = answered(Wire::OpenAi, &body).await.usage;
        assert_eq!((usage.input, usage.output), (None, Some(3)), "{odd}");
    }
}

/// USE-2: counts of nothing, and no counts at all.
#[tokio::test]
async fn tokens_that_are_not_reported_are_unknown() {
    for wire in ALL_WIRES {
        let mut body = replied(wire, "text");
        body["usage"] = Value::Null;
        body["usageMetadata"] = Value::Null;
        assert_eq!(answered(wire, &body).await.usage, Usage::default(), "{wire:?}");
    }
    let mut body = replied(Wire::OpenAi, "text");
    body["usage"] = json!({ "prompt_tokens": 7, "completion_tokens": 0 });
    let expected = Usage { input: Some(7), output: Some(0), cache_read: Some(0), cache_write: None };
    assert_eq!(answered(Wire::OpenAi, &body).await.usage, expected);
    let mut body = replied(Wire::Google, "text");
    body["usageMetadata"] = json!({ "promptTokenCount": 3, "thoughtsTokenCount": 9 });
    assert_eq!(answered(Wire::Google, &body).await.usage.output, Some(9));
}

/// FAIL-2, FAIL-17, 01/RUN-16: each status under its own name, tried again only when that can help.
#[tokio::test]
async fn a_status_is_named_and_retried_when_that_can_help() {
    let cases = [(400, 1), (401, 1), (403, 1), (404, 1), (413, 1), (422, 1), (302, 1)];
    let retried = [(408, 3), (409, 3), (429, 3), (500, 3), (503, 3), (529, 3)];
    for wire in ALL_WIRES {
        for (status, expected) in cases.into_iter().chain(retried) {
            let body = json!({ "error": { "message": SECRET } });
            let (outcome, requests) = outcome(wire, vec![answer(status, &body)]).await;
            let error = outcome.unwrap_err();
            assert_eq!(error.name(), format!("provider_status_{status}"), "{wire:?}");
            assert_eq!(requests, expected, "{wire:?} {status}");
            assert!(!format!("{error:?} {error}").contains(SECRET), "{wire:?} {status}");
        }
    }
}

/// 01/RUN-16: an answer after a failure is an answer.
#[tokio::test]
async fn a_hiccup_is_not_noticed() {
    for wire in ALL_WIRES {
        let good = answer(200, &replied(wire, "text"));
        let acts = vec![answer(503, &json!({})), Act::Close, good];
        let (outcome, requests) = outcome(wire, acts).await;
        assert_eq!(outcome.unwrap().output, ModelOutput::Text("text".to_owned()), "{wire:?}");
        assert_eq!(requests, 3, "{wire:?}");
    }
}

/// 01/RUN-16: a provider that asks for a long wait, or says that retrying is of no use, is left alone.
#[tokio::test]
async fn a_provider_that_wants_no_retry_gets_none() {
    for headers in [
        "retry-after: 60\r\n",
        "retry-after-ms: 60000\r\n",
        "retry-after: Fri, 31 Dec 2100 23:59:59 GMT\r\n",
        "x-should-retry: false\r\n",
    ] {
        let act = Act::Answer { status: 429, headers, body: "{}".to_owned() };
        let (outcome, requests) = outcome(Wire::OpenAi, vec![act]).await;
        assert_eq!((outcome, requests), (Err(ModelError::Status(429)), 1), "{headers}");
    }
}

/// FAIL-2, FAIL-17: whatever is no answer of the provider is tried again and named alike.
#[tokio::test]
async fn what_is_no_answer_of_the_provider_is_unreachable() {
    let page = Act::Answer {
        status: 200,
        headers: "content-type: text/html\r\n",
        body: format!("<html>{SECRET}</html>"),
    };
    let cut = Act::Answer {
        status: 200,
        headers: "content-type: application/json\r\n",
        body: format!("{{\"{SECRET}"),
    };
    for wire in ALL_WIRES {
        for act in [page.clone(), cut.clone(), Act::Close] {
            let (outcome, requests) = outcome(wire, vec![act]).await;
            let error = outcome.unwrap_err();
            assert_eq!((error.name().as_str(), requests), ("provider_unreachable", 3), "{wire:?}");
            assert!(!format!("{error:?} {error}").contains(SECRET), "{wire:?}");
        }
    }
}

/// FAIL-2
#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    install_tls_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let access = Access { base_url: &base_url, key: "key" };
    let model = HostedModel::new(Wire::OpenAi, "some-model", access, http_client().unwrap()).unwrap();
    assert_eq!(model.step(request()).await, Err(ModelError::Unreachable));
}

/// FAIL-3, FAIL-17, DEC-19: answered without a reply; the tokens count, and nothing of the request is told.
#[tokio::test]
async fn an_answer_without_a_reply_is_missing_and_charged() {
    let openai = |message: Value, finish: &str| {
        let mut body = replied(Wire::OpenAi, "");
        body["choices"][0]["message"] = message;
        body["choices"][0]["finish_reason"] = json!(finish);
        (Wire::OpenAi, body)
    };
    let anthropic = |content: Value, stop: &str| {
        let mut body = replied(Wire::Anthropic, "");
        body["content"] = content;
        body["stop_reason"] = json!(stop);
        (Wire::Anthropic, body)
    };
    let google = |candidates: Value| {
        let mut body = replied(Wire::Google, "");
        body["candidates"] = candidates;
        body["promptFeedback"] = json!({ "blockReason": "SAFETY" });
        (Wire::Google, body)
    };
    let cases = [
        openai(json!({ "role": "assistant", "content": null, "refusal": "I cannot." }), "stop"),
        openai(json!({ "role": "assistant", "content": "half a" }), "content_filter"),
        openai(json!({ "role": "assistant", "content": "" }), "length"),
        anthropic(json!([]), "end_turn"),
        anthropic(json!([]), "refusal"),
        anthropic(json!([{ "type": "text", "text": "half a" }]), "refusal"),
        anthropic(Value::Null, "end_turn"),
        google(Value::Null),
        google(json!([{ "index": 0, "finishReason": "SAFETY" }])),
        google(json!([{ "index": 0, "finishReason": "MALFORMED_FUNCTION_CALL", "content": {} }])),
        google(json!([{ "index": 0, "finishReason": "MAX_TOKENS",
            "content": { "role": "model", "parts": [{ "text": "hm", "thought": true }] } }])),
    ];
    for (wire, body) in cases {
        let answered = answered(wire, &body).await;
        let usage = Usage { cache_write: None, ..answered.usage };
        assert_eq!((answered.output, usage), (ModelOutput::Missing, USAGE), "{body}");
    }
}

/// FAIL-3, 01/RUN-11, DEC-19: what was cut is handed on; the runner finds that it is no reply.
#[tokio::test]
async fn an_answer_cut_by_the_limit_is_handed_on() {
    let mut body = replied(Wire::OpenAi, "{\"messages\": [\"cut");
    body["choices"][0]["finish_reason"] = json!("length");
    let answered = answered(Wire::OpenAi, &body).await;
    assert_eq!(answered.output, ModelOutput::Text("{\"messages\": [\"cut".to_owned()));
    assert_eq!(answered.usage, USAGE);
}

/// FAIL-3, DEC-19: arguments of the reply tool that are no JSON are an invalid reply, not a lost call.
#[tokio::test]
async fn broken_tool_arguments_are_handed_on() {
    let mut body = replied(Wire::OpenAi, "");
    body["choices"][0]["message"]["tool_calls"] = json!([
        { "id": "t", "type": "function", "function": { "name": "send_reply", "arguments": "{\"messages\":" } }
    ]);
    let answered = answered(Wire::OpenAi, &body).await;
    assert_eq!(answered.output, ModelOutput::Text("{\"messages\":".to_owned()));
    assert_eq!(answered.usage, USAGE);
}

/// 01/RUN-3: a refusal of the request that names nothing known is final; one of a schema that was not sent, too.
#[tokio::test]
async fn a_refusal_is_not_answered_with_the_same_request() {
    let schema = json!({ "error": { "message": "Invalid schema." } });
    let (outcome, requests) = outcome(Wire::OpenAi, vec![answer(400, &schema)]).await;
    assert_eq!((outcome, requests), (Err(ModelError::Status(400)), 2));
}

/// A local reasoning model thinks aloud in front of the object.
#[tokio::test]
async fn thoughts_of_a_local_model_are_left_out() {
    let said = format!("<think>{SECRET}</think>\n{}", reply_object());
    let answered = answered(Wire::Ollama, &replied(Wire::Ollama, &said)).await;
    assert_eq!(answered.output, ModelOutput::Text(reply_object().to_string()));
}

/// 01/RUN-13, 01/RUN-14: a dropped call is over at the provider as well.
#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    for wire in ALL_WIRES {
        let fake = FakeProvider::start(vec![Act::Hang]).await;
        let model = fake.model(wire, "some-model");
        let mut call = model.step(request());
        let asked = async {
            while fake.asked().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut call => panic!("the provider hangs"),
            () = asked => {}
        }
        drop(call);
        fake.caller_left().await;
    }
}
