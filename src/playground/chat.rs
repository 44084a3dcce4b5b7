//! The playground at work: takes a contact's message to the message route as ManyChat would, writes on the board what
//! comes back and what the account receives, and keeps the records beside the chats fresh.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::board::{About, Board, Progress, Switches, What};
use super::key::Key;
use super::{Controls, names};
use crate::actors::Services;
use crate::channel::{DynamicBlock, MESSAGE_PATH, Message};
use crate::config::{Messages, Settings, Tools};
use crate::domain::{ChannelName, Redacted, SubscriberId, millis};
use crate::manychat::{DEVELOPMENT_CONTACT, DevelopmentAccount, Happening, Trouble};
use crate::model::{MockMood, MockSwitch};
use crate::store::playground;
use crate::turn::{Snapshots, TurnContext};

/// ManyChat ends its call after this long, and so does the playground.
const PLATFORM_LIMIT: Duration = Duration::from_secs(10);
/// How often the records are read while a page is open.
const REFRESH: Duration = Duration::from_millis(400);
/// Longest part of an unexpected answer that is shown, in characters.
const LONGEST_SHOWN: usize = 300;

/// What a playground is made of.
pub struct Setup<'a> {
    /// The actors.
    pub services: Services,
    /// The environment; of the shared secrets the first is used, and it stays here.
    pub settings: &'a Settings,
    /// What can be switched.
    pub controls: Controls,
    /// The shared runtime.
    pub io: Handle,
}

/// The playground of a process; cheap to clone.
#[derive(Clone)]
pub struct Playground {
    inner: Arc<Inner>,
}

struct Inner {
    board: Arc<Board>,
    account: Option<Arc<DevelopmentAccount>>,
    mock: Option<MockSwitch>,
    /// Of the services only this: all of them hold the heartbeat, which ends when its last holder does.
    context: Arc<TurnContext>,
    snapshots: Arc<Snapshots>,
    http: reqwest::Client,
    address: String,
    secret: Redacted<String>,
    key: Key,
    channel: ChannelName,
    io: Handle,
    /// How many happenings of the account are on the board.
    shown: watch::Sender<u64>,
}

/// The playground could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlaygroundError {
    /// Its HTTP client could not be built: unset `PLAYGROUND` to do without.
    #[error("the playground's HTTP client could not be built ({0}); unset PLAYGROUND to do without it")]
    Client(String),
}

impl Playground {
    /// Starts it. It reaches the message route over the network like any other caller.
    ///
    /// # Errors
    /// [`PlaygroundError::Client`].
    pub fn start(setup: Setup<'_>) -> Result<Self, PlaygroundError> {
        let Setup { services, settings, controls, io } = setup;
        let http = reqwest::Client::builder().timeout(PLATFORM_LIMIT).tls_certs_only([]).no_proxy().build();
        let http = http.map_err(|error| PlaygroundError::Client(error.to_string()))?;
        let (account, happenings) = controls.account.map(|parts| (parts.account, parts.happenings)).unzip();
        let secret = settings.shared_secrets.iter().next().unwrap_or_default().to_owned();
        let inner = Inner {
            board: Arc::new(Board::new(about(settings), Switches::default())),
            account,
            mock: controls.mock,
            context: services.context,
            snapshots: services.snapshots,
            http,
            address: format!("http://127.0.0.1:{}{MESSAGE_PATH}", settings.port),
            key: Key::of(&secret),
            secret: Redacted::new(secret),
            channel: settings.channel,
            io: io.clone(),
            shown: watch::Sender::new(0),
        };
        let playground = Self { inner: Arc::new(inner) };
        playground.show_switches();
        playground.show_tools();
        if let Some(happenings) = happenings {
            io.spawn(playground.clone().watch(happenings));
        }
        io.spawn(playground.clone().refresh());
        Ok(playground)
    }

    /// Ends the streams of all pages, so that they do not hold up a stop.
    pub fn close(&self) {
        self.inner.board.close();
    }

    pub(super) fn key(&self) -> &Key {
        &self.inner.key
    }

    pub(super) fn board(&self) -> Arc<Board> {
        Arc::clone(&self.inner.board)
    }

    /// A contact nobody has used before.
    pub(super) fn add_contact(&self, channel: ChannelName) -> Option<String> {
        let name = format!("{DEVELOPMENT_CONTACT}{}", Uuid::new_v4().simple());
        self.inner.board.add(SubscriberId::new(&name)?, channel);
        Some(name)
    }

    pub(super) fn set_model(&self, mood: MockMood) -> bool {
        let known = self.inner.mock.as_ref().map(|switch| switch.set(mood)).is_some();
        self.show_switches();
        known
    }

    pub(super) fn set_manychat(&self, trouble: Trouble) -> bool {
        let known = self.inner.account.as_ref().map(|account| account.set_trouble(trouble)).is_some();
        self.show_switches();
        known
    }

    fn show_switches(&self) {
        self.inner.board.set_switches(Switches {
            model: self.inner.mock.as_ref().map(MockSwitch::mood),
            manychat: self.inner.account.as_ref().map(|account| account.trouble()),
        });
    }

    /// A reload can bring tools or take them away (RLD-1).
    fn show_tools(&self) {
        let snapshot = self.inner.snapshots.current();
        self.inner.board.set_tools(snapshot.tenant.tools.as_ref().is_some_and(Tools::offers_any));
    }

    /// A message of the contact. Returns at once; false for a contact that is not on the board.
    pub(super) fn say(&self, contact: &str, text: String) -> bool {
        let Some((subscriber, channel)) = self.inner.board.channel_of(contact) else { return false };
        let said = What::Said { text: text.clone(), state: Progress::Sending };
        let line = self.inner.board.write(&subscriber, channel, said);
        let playground = self.clone();
        // On the shared runtime: a page that closes must not take the request with it.
        self.inner.io.spawn(async move {
            let (progress, what) = match playground.exchange(&subscriber, channel, &text).await {
                Ok(reply) => (Progress::Answered, reply),
                Err(text) => (Progress::Failed, What::Problem { text }),
            };
            playground.catch_up().await;
            playground.inner.board.mark(&subscriber, line, progress);
            playground.inner.board.write(&subscriber, channel, what);
        });
        true
    }

    /// Returns when everything that the account has told is on the board: a flow that was played before the reply stands
    /// before it.
    async fn catch_up(&self) {
        let Some(account) = &self.inner.account else { return };
        let (told, mut shown) = (account.told(), self.inner.shown.subscribe());
        // The sender lives as long as the playground, so this cannot fail.
        let _ = shown.wait_for(|shown| *shown >= told).await;
    }

    /// The request that ManyChat would send, and what came back, in words when it was no block.
    async fn exchange(
        &self,
        subscriber: &SubscriberId,
        channel: ChannelName,
        text: &str,
    ) -> Result<What, String> {
        let inner = &self.inner;
        let mut body =
            json!({ "subscriber_id": subscriber.expose(), "text": text, "channel": channel.as_str() });
        let token = inner.account.as_ref().and_then(|account| account.token(subscriber));
        if let (Some(object), Some(token)) = (body.as_object_mut(), token) {
            object.insert("ai_token".to_owned(), token.expose().clone().into());
        }
        let started = Instant::now();
        let request = inner.http.post(&inner.address).bearer_auth(inner.secret.expose()).json(&body);
        let response = request.send().await.map_err(|error| lost(&error))?;
        let status = response.status();
        let answer = response.text().await.map_err(|error| lost(&error))?;
        if !status.is_success() {
            return Err(format!("The service answered {status}: {}", reason(&answer)));
        }
        let block: DynamicBlock = serde_json::from_str(&answer)
            .map_err(|_| format!("The service answered {status} with something that is no Dynamic Block."))?;
        let took_ms = millis(started.elapsed());
        let texts: Vec<String> = block.content.messages.into_iter().map(shown).collect();
        let role = role(&texts, &inner.snapshots.current().tenant.rules.messages);
        Ok(What::Reply { texts, took_ms, role })
    }

    /// Writes on the board what the account tells.
    async fn watch(self, mut happenings: UnboundedReceiver<Happening>) {
        while let Some(Happening { contact, what }) = happenings.recv().await {
            let known = self.inner.board.channel_of(contact.expose());
            let channel = known.map_or(self.inner.channel, |(_, channel)| channel);
            let snapshot = self.inner.snapshots.current();
            let tools = snapshot.tenant.tools.as_ref();
            self.inner.board.write(&contact, channel, names::line(what, tools));
            if let Some(account) = &self.inner.account {
                self.inner.board.set_profile(&contact, names::profile(account.view(&contact), tools));
            }
            self.inner.shown.send_modify(|shown| *shown += 1);
        }
    }

    /// Reads the records while somebody looks.
    async fn refresh(self) {
        let mut ticks = tokio::time::interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let context = &self.inner.context;
        let board = &self.inner.board;
        while !board.is_closed() {
            ticks.tick().await;
            self.show_tools();
            let subscribers = board.subscribers();
            if !board.is_watched() || subscribers.is_empty() {
                continue;
            }
            match playground::records(&context.database, &context.settings.tenant, &subscribers).await {
                Ok(records) => {
                    let rules = &self.inner.snapshots.current().tenant.rules;
                    board.set_records(records, rules.handoff.is_some());
                    board.set_trouble(None);
                }
                Err(_) => board.set_trouble(Some(
                    "The database does not answer: messages end with a person, and the panel is out of date. \
                     Look at the service's log.",
                )),
            }
        }
    }
}

fn about(settings: &Settings) -> About {
    About {
        tenant: settings.tenant.as_str().to_owned(),
        model: settings.model.agent.as_string(),
        channels: ChannelName::ALL,
        channel: Some(settings.channel),
        deadline_ms: millis(settings.race_deadline),
    }
}

/// Why no answer came, without the address.
fn lost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        let secs = PLATFORM_LIMIT.as_secs();
        return format!(
            "No answer within {secs} seconds: here ManyChat hangs up, and the contact sees nothing yet."
        );
    }
    "The message route cannot be reached: the service is starting or stopping. Send it again.".to_owned()
}

/// The service's own words in a refusal, or the beginning of whatever came.
fn reason(answer: &str) -> String {
    let body: Value = serde_json::from_str(answer).unwrap_or_default();
    let words = body.get("message").or_else(|| body.get("error")).and_then(Value::as_str);
    words.unwrap_or(answer).chars().take(LONGEST_SHOWN).collect()
}

fn shown(message: Message) -> String {
    match message {
        Message::Text { text, .. } => text,
        Message::Image { url, .. } => format!("[image] {url}"),
        Message::File { url } => format!("[file] {url}"),
    }
}

/// Which of the tenant's fixed texts this is, for a label beside it.
fn role(texts: &[String], messages: &Messages) -> Option<&'static str> {
    let [text] = texts else { return None };
    let known = [
        (Some(&messages.acknowledgement), "holding"),
        (Some(&messages.escalation), "handoff"),
        (messages.media_fallback.as_ref(), "media_fallback"),
        (messages.closer.as_ref(), "closer"),
    ];
    known.into_iter().find(|(copy, _)| *copy == Some(text)).map(|(_, role)| role)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tenant's own texts are labelled; a reply of the model is not.
    #[test]
    fn fixed_texts_are_recognised() {
        let messages = Messages {
            acknowledgement: "One moment.".to_owned(),
            escalation: "A person will write.".to_owned(),
            media_fallback: None,
            closer: Some("Any time.".to_owned()),
        };
        let role = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            role(&texts, &messages)
        };
        assert_eq!(role(&["One moment."]), Some("holding"));
        assert_eq!(role(&["A person will write."]), Some("handoff"));
        assert_eq!(role(&["Any time."]), Some("closer"));
        assert_eq!(role(&["It is $450.00."]), None);
        assert_eq!(role(&[]), None);
        assert_eq!(role(&["One moment.", "It is $450.00."]), None);
    }

    /// A refusal is told in the service's own words, anything else is cut.
    #[test]
    fn a_refusal_is_told_in_the_services_words() {
        assert_eq!(
            reason(r#"{"statusCode":400,"message":"body/text is too long"}"#),
            "body/text is too long"
        );
        assert_eq!(reason(r#"{"error":"unauthorized"}"#), "unauthorized");
        assert_eq!(reason("x".repeat(5000).as_str()).chars().count(), LONGEST_SHOWN);
    }
}
