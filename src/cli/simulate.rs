//! `agent simulate`: sends what ManyChat would send and prints what the contact would see (06 section 7.5, SIM-*).

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::{boot, local_http};
use crate::channel::{self, DynamicBlock};
use crate::domain::ChannelName;
use crate::http::MESSAGE_PATH;

/// The platform hangs up after this long.
const PLATFORM_LIMIT: Duration = Duration::from_secs(10);
/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct SimulateArguments {
    /// Contact that writes
    #[arg(short, long, default_value = "sim-001")]
    subscriber: String,
    /// Another server than the local one, for example https://agent.example.com
    #[arg(long, value_name = "BASE", value_parser = base)]
    url: Option<String>,
    /// Contact token to send as `ai_token`
    #[arg(long, value_name = "VALUE")]
    token: Option<String>,
    /// Print the raw answer
    #[arg(long)]
    json: bool,
    /// The message; its words are joined by blanks
    #[arg(required = true)]
    message: Vec<String>,
}

/// The base of an address that can be asked.
fn base(text: &str) -> Result<String, &'static str> {
    let asked =
        url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if asked {
        Ok(text.to_owned())
    } else {
        Err("an address is wanted, for example https://agent.example.com")
    }
}

/// Exit 0 on a valid Dynamic Block, else 1 (CLI-54).
pub(super) fn run(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let settings = boot::load()?.settings;
    let base = match &arguments.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!("http://127.0.0.1:{}", settings.port),
    };
    let secret = settings.shared_secrets.iter().next().unwrap_or_default().to_owned();
    local_http::block_on(exchange(arguments, base, secret, settings.channel))
}

async fn exchange(
    arguments: &SimulateArguments,
    base: String,
    secret: String,
    channel: ChannelName,
) -> anyhow::Result<ExitCode> {
    let address = format!("{base}{MESSAGE_PATH}");
    let message = arguments.message.join(" ");
    let mut body = json!({ "subscriber_id": arguments.subscriber, "text": message });
    if let (Some(object), Some(token)) = (body.as_object_mut(), &arguments.token) {
        object.insert("ai_token".to_owned(), token.clone().into());
    }
    let started = Instant::now();
    let request = local_http::client(&address, LIMIT)?.post(&address).bearer_auth(secret).json(&body);
    let answer = request.send().await.with_context(|| {
        format!("nothing answers at {base}: start the server first, for example with `agent dev`")
    })?;
    let status = answer.status();
    let text = answer.text().await.context("the answer did not arrive whole")?;
    let elapsed = started.elapsed();
    anyhow::ensure!(status.is_success(), "the server answered {status}: {text}");
    let block: Value = serde_json::from_str(&text).context("the answer is not JSON")?;
    if arguments.json {
        println!("{text}");
    }
    check_block(&text, channel)?;
    if !arguments.json {
        print!("{}", conversation(&message, &block, elapsed));
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the answer with the very types that write it (CLI-54).
fn check_block(text: &str, channel: ChannelName) -> anyhow::Result<()> {
    let block: DynamicBlock =
        serde_json::from_str(text).context("the answer is not a valid Dynamic Block")?;
    let capabilities = &channel::profile(channel).capabilities;
    channel::validate(&block, capabilities).context("the answer is not a valid Dynamic Block")
}

/// The contact's message, a rule, the reply, a rule, one summary line (CLI-53).
fn conversation(message: &str, block: &Value, elapsed: Duration) -> String {
    const RULE: &str = "----------------------------------------";
    let mut lines = vec![format!("contact: {message}"), RULE.to_owned()];
    let messages = block.pointer("/content/messages").and_then(Value::as_array);
    lines.extend(messages.into_iter().flatten().map(shown));
    lines.push(RULE.to_owned());
    lines.push(summary(block, elapsed));
    if elapsed > PLATFORM_LIMIT {
        lines.push("warning: slower than ManyChat waits (10000 ms)".to_owned());
    }
    lines.join("\n") + "\n"
}

/// A text as is; another kind as its type in brackets with its address.
fn shown(message: &Value) -> String {
    let kind = message.get("type").and_then(Value::as_str).unwrap_or("?");
    let text = message.get("text").and_then(Value::as_str);
    match text {
        Some(text) => text.to_owned(),
        None => {
            let url = message.get("url").and_then(Value::as_str).unwrap_or_default();
            format!("[{kind}] {url}").trim_end().to_owned()
        }
    }
}

fn summary(block: &Value, elapsed: Duration) -> String {
    let callback = block.pointer("/content/external_message_callback");
    let quick_replies = block.pointer("/content/quick_replies");
    format!(
        "{} ms, callback {}, quick replies {}",
        elapsed.as_millis(),
        if callback.is_some() { "registered" } else { "none" },
        if quick_replies.is_some() { "PRESENT" } else { "omitted" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-53, SIM-2
    #[test]
    fn the_conversation_is_shown_with_one_summary_line() {
        let block = json!({"version": "v2", "content": {
            "messages": [{"type": "text", "text": "Hello."}, {"type": "image", "url": "https://x.example/a"}],
            "external_message_callback": {}
        }});
        let shown = conversation("hi", &block, Duration::from_millis(12));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "contact: hi");
        assert_eq!(lines[2..4], ["Hello.", "[image] https://x.example/a"]);
        assert_eq!(lines[5], "12 ms, callback registered, quick replies omitted");
        let slow = conversation("hi", &json!({"content": {"quick_replies": []}}), Duration::from_secs(11));
        assert!(slow.contains("callback none, quick replies PRESENT"));
        assert!(slow.lines().last().unwrap().starts_with("warning"));
    }
}
