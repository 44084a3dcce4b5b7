//! The actor with a played ManyChat, in time that moves by itself when nothing else does.

use std::sync::Mutex;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use super::*;
use crate::actors::manychat::service::{Delivery, ManyChat};
use crate::actors::manychat::shared_rate::SharedRate;
use crate::actors::supervised::Restarts;
use crate::domain::{ContactText, Redacted, SubscriberId};
use crate::manychat::{
    Call, Class, Command, ContactInfo, DeliveryClient, Handle, Names, Priority, channel_of,
};
use crate::store::{Pulse, boot_clock_ms};

const GAP: Duration = Duration::from_secs(2);

/// A ManyChat that notes what it is asked, and when.
struct Account {
    begun: tokio::time::Instant,
    calls: Mutex<Vec<(u128, String)>>,
    latency: Duration,
}

impl DeliveryClient for Account {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Answer, ManyChatError>> {
        let at = self.begun.elapsed().as_millis();
        let what = described(&call.command);
        self.calls.lock().unwrap().push((at, format!("{} {what}", call.contact.expose())));
        Box::pin(async move {
            tokio::time::sleep(self.latency).await;
            let endpoint = call.endpoint();
            match what.rsplit(' ').next() {
                Some("panic") => panic!("played failure of a client"),
                Some("refused") => {
                    Err(ManyChatError::Response { endpoint, status: 200, problem: "the body is not JSON" })
                }
                Some("busy") => Err(ManyChatError::Api {
                    endpoint,
                    status: 429,
                    code: None,
                    said: crate::manychat::Said::default(),
                    retry_after: Some(seconds_in(&what)),
                }),
                Some("info") => {
                    Ok(Answer::Contact(ContactInfo { tags: vec!["tag".into()], fields: Vec::new() }))
                }
                _ => Ok(Answer::Accepted),
            }
        })
    }
}

/// The number before the last word, for how long a busy account asks to wait: `12 busy`; otherwise 5.
fn seconds_in(what: &str) -> Duration {
    let asked = what.rsplit(' ').nth(1).and_then(|word| word.parse().ok());
    Duration::from_secs(asked.unwrap_or(5))
}

fn described(command: &Command) -> String {
    match command {
        Command::SetField { field, value } => format!("{field} {}", value.expose()),
        Command::WriteToken { field, token } => format!("{field} {}", token.expose()),
        Command::SendFlow { flow_ns } => format!("play {flow_ns}"),
        Command::AddTag { tag } => format!("add {tag}"),
        Command::RemoveTag { tag } => format!("remove {tag}"),
        Command::GetInfo => "info".to_owned(),
    }
}

/// A shared rate without other processes, so that our own bucket decides.
#[derive(Default)]
struct Alone {
    pushed: Mutex<Vec<Duration>>,
    silent: bool,
}

impl SharedRate for Alone {
    fn reserve(&self) -> BoxFuture<'_, Option<(Duration, u32)>> {
        Box::pin(std::future::ready((!self.silent).then_some((Duration::ZERO, 1))))
    }

    fn push(&self, pause: Duration) -> BoxFuture<'_, ()> {
        self.pushed.lock().unwrap().push(pause);
        Box::pin(std::future::ready(()))
    }
}

struct Stage {
    handle: Handle,
    account: Arc<Account>,
    rate: Arc<Alone>,
    pulse: Pulse,
    service: ManyChat,
}

impl Stage {
    fn new(latency: Duration, rate: Alone, place: Option<actix_rt::ArbiterHandle>) -> Self {
        let pulse = Pulse::new(crate::domain::ProcessId::fresh(), Duration::from_secs(20));
        pulse.confirmed(boot_clock_ms());
        let (handle, orders) = channel_of(pulse.clone());
        let begun = tokio::time::Instant::now();
        let account = Arc::new(Account { begun, calls: Mutex::default(), latency });
        let rate = Arc::new(rate);
        let delivery = Delivery {
            handle: handle.clone(),
            orders,
            client: Arc::clone(&account) as Arc<dyn DeliveryClient>,
            names: Names {
                reply_field: "reply".into(),
                reply_flow_ns: "flow".into(),
                token_field: "token".into(),
            },
            reply_gap: GAP,
            calls_per_second: std::num::NonZeroU32::new(10).unwrap(),
        };
        let io = tokio::runtime::Handle::current();
        let shared = Arc::clone(&rate) as Arc<dyn SharedRate>;
        let parts = Parts::new(delivery, shared, pulse.clone(), io);
        let service = ManyChat::start(parts, place.as_ref(), &Restarts::default());
        Self { handle, account, rate, pulse, service }
    }

    fn calls(&self) -> Vec<(u128, String)> {
        self.account.calls.lock().unwrap().clone()
    }

    fn text(&self, who: &str, text: &str) -> JoinHandle<Result<(), ManyChatError>> {
        let (handle, contact, text) = (self.handle.clone(), contact(who), ContactText::new(text));
        tokio::spawn(async move { handle.send_text(&contact, text, Duration::ZERO).await })
    }

    async fn tag(&self, who: &str, tag: &str) -> Result<(), ManyChatError> {
        self.handle.perform(&contact(who), Action::AddTag { tag: tag.to_owned() }, Priority::Background).await
    }
}

fn contact(id: &str) -> SubscriberId {
    SubscriberId::new(id).unwrap()
}

/// Runs on a clock that jumps to the next timer whenever nothing else is to be done.
fn on_stage<F>(latency: Duration, rate: Alone, play: impl FnOnce(Stage) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let system = actix_rt::System::with_tokio_rt(runtime);
    system.block_on(async move { play(Stage::new(latency, rate, None)).await });
}

fn called(calls: &[(u128, &str)]) -> Vec<(u128, String)> {
    calls.iter().map(|(at, call)| (*at, (*call).to_owned())).collect()
}

/// AC-DL-1, AC-DL-2, AC-DL-9, DEL-4: field then flow, text by text, with the gap; another contact beside it.
#[test]
fn texts_are_written_and_played_one_after_the_other() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let sent = [stage.text("1", "a"), stage.text("1", "b"), stage.text("2", "c")];
        for text in sent {
            assert_eq!(text.await.unwrap(), Ok(()));
        }
        let calls = stage.calls();
        let of = |who: &str| -> Vec<(u128, String)> {
            calls.iter().filter(|(_, call)| call.starts_with(who)).cloned().collect()
        };
        assert_eq!(
            of("1"),
            called(&[(0, "1 reply a"), (0, "1 play flow"), (2000, "1 reply b"), (2000, "1 play flow")])
        );
        assert_eq!(of("2"), called(&[(0, "2 reply c"), (0, "2 play flow")]));
    });
}

/// AC-DL-6, API-9, BUCKET-5: six calls of every kind at once.
#[test]
fn six_calls_leave_five_at_once_and_one_later() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let handle = &stage.handle;
        let token = Redacted::new("secret".to_owned());
        let (one, two, three, four, five, six) =
            (contact("1"), contact("2"), contact("3"), contact("4"), contact("5"), contact("6"));
        let flow = Action::SendFlow { flow_ns: "x".into() };
        let field = Action::SetField { field: "f".into(), value: ContactText::new("v") };
        let done = tokio::join!(
            handle.perform(&one, flow, Priority::Background),
            handle.perform(&two, field, Priority::Background),
            handle.perform(&three, Action::AddTag { tag: "t".into() }, Priority::Background),
            handle.perform(&four, Action::RemoveTag { tag: "t".into() }, Priority::Background),
            handle.write_token(&five, token, Priority::Background),
            handle.perform(&six, Action::AddTag { tag: "u".into() }, Priority::Background),
        );
        assert_eq!(done, (Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(())));
        let mut calls = stage.calls();
        assert_eq!(calls.pop(), Some((100, "6 add u".to_owned())));
        let expected =
            [(0, "1 play x"), (0, "2 f v"), (0, "3 add t"), (0, "4 remove t"), (0, "5 token secret")];
        assert_eq!(calls, called(&expected));
    });
}

/// READ-5, API-27: a read brings what the client lets out.
#[test]
fn a_read_is_answered_with_the_contact() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let info = stage.handle.read_contact(&contact("1"), Duration::from_millis(1500)).await.unwrap();
        assert_eq!(info.tags, ["tag"]);
    });
}

/// AC-DL-3, DEL-1: a failed write is not played, and its error comes back.
#[test]
fn a_failed_write_is_not_played() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let error = stage.text("1", "refused").await.unwrap().unwrap_err();
        assert_eq!((error.name(), error.class()), ("response_error", Class::Final));
        assert_eq!(stage.calls(), called(&[(0, "1 reply refused")]));
    });
}

/// BUCKET-4: dropping withdraws, before a call and between the two calls of a text.
#[test]
fn dropping_the_future_withdraws_the_order() {
    on_stage(Duration::from_millis(500), Alone::default(), |stage| async move {
        let first = stage.text("1", "a");
        let second = stage.text("1", "b");
        tokio::time::sleep(Duration::from_millis(100)).await;
        first.abort();
        second.abort();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.calls(), called(&[(0, "1 reply a")]));
        assert_eq!(stage.handle.open(), 0);
        let report = stage.service.observe().await.unwrap();
        assert_eq!((report.open, report.contacts), (0, 0));
    });
}

/// ARC-44: with too old a heartbeat nothing starts, and what was asked for before the silence stays undone after it.
#[test]
fn no_call_starts_while_others_may_take_the_process_for_dead() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        assert_eq!(stage.text("1", "a").await.unwrap(), Ok(()));
        let waiting = stage.text("1", "b");
        tokio::time::sleep(Duration::from_secs(1)).await;
        // A minute without a beat, seen at the next one.
        stage.pulse.confirmed(boot_clock_ms() + 60_000);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(
            (error.name(), error.class(), error.may_have_acted()),
            ("not_started", Class::Retryable, false)
        );
        assert_eq!(stage.tag("1", "fresh").await, Ok(()), "what is asked for now may be done");
        // Asked for, and the machine stands still before the actor has taken it.
        let (other, text) = (contact("2"), ContactText::new("c"));
        let mut asked = Box::pin(stage.handle.send_text(&other, text, Duration::ZERO));
        assert!(futures_util::poll!(&mut asked).is_pending());
        assert!(stage.pulse.take_new_id(crate::domain::ProcessId::fresh(), boot_clock_ms()));
        assert_eq!(asked.await.unwrap_err().name(), "not_started", "others may have sent it");
        let mute = Pulse::new(crate::domain::ProcessId::fresh(), Duration::from_secs(20));
        assert!(!mute.allows(mute.life()));
        assert_eq!(stage.calls().len(), 3);
    });
}

/// GAP-DL-8: a 429 pauses this process and is told to the others.
#[test]
fn too_many_calls_pause_everything() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let error = stage.tag("1", "busy").await.unwrap_err();
        assert_eq!((error.status(), error.retry_after()), (Some(429), Some(Duration::from_secs(5))));
        assert_eq!(stage.tag("2", "t").await, Ok(()));
        assert_eq!(stage.calls(), called(&[(0, "1 add busy"), (5000, "2 add t")]));
        assert_eq!(*stage.rate.pushed.lock().unwrap(), [Duration::from_secs(5)]);
    });
}

/// GAP-DL-7, GAP-DL-8: in a pause that outlasts their time, calls inside a request end at once, as not started and in words of
/// their own; what is behind a reply waits and is made.
#[test]
fn a_call_inside_a_request_does_not_wait_for_a_long_pause() {
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let limits = [Duration::from_secs(12), Duration::from_secs(4)];
        for (number, pause) in (0_u32..).zip(limits) {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let begun = tokio::time::Instant::now();
            let _ = stage.tag(&number.to_string(), &format!("{} busy", pause.as_secs())).await;
            let behind = stage.text("9", "behind a reply");
            let (who, flow) = (contact("7"), Action::SendFlow { flow_ns: "x".into() });
            let paused = ManyChatError::NotStarted { reason: Unstarted::Paused };
            let read = stage.handle.read_contact(&who, Duration::from_millis(1500)).await;
            assert_eq!(read, Err(paused.clone()));
            let sent = stage.handle.perform(&who, flow, Priority::InRequest).await;
            let long = pause > Duration::from_secs(10);
            assert_eq!(sent, if long { Err(paused) } else { Ok(()) });
            assert_eq!(begun.elapsed() < Duration::from_secs(1), long, "{:?}", begun.elapsed());
            assert_eq!(behind.await.unwrap(), Ok(()));
            assert!(begun.elapsed() >= pause);
        }
        assert!(stage.calls().iter().all(|(_, call)| !call.ends_with("info")));
        assert_eq!(stage.handle.open(), 0);
    });
}

/// ARC-48: with a silent database calls go on, one at a time.
#[test]
fn a_silent_database_slows_calls_down_and_does_not_stop_them() {
    on_stage(Duration::ZERO, Alone { silent: true, ..Alone::default() }, |stage| async move {
        for number in 0..4 {
            assert_eq!(stage.tag(&number.to_string(), "t").await, Ok(()));
        }
        let times: Vec<u128> = stage.calls().iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [0, 100, 200, 300]);
        assert!(!stage.service.observe().await.unwrap().shared_rate);
    });
}

/// ARC-24: what can be seen of it, without any contact.
#[test]
fn the_state_can_be_observed() {
    on_stage(Duration::from_secs(1), Alone::default(), |stage| async move {
        let _ = stage.tag("7301144", "refused").await;
        let _ = stage.tag("7301144", "busy").await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let texts = [stage.text("7301144", "a"), stage.text("7301144", "b")];
        tokio::time::sleep(Duration::from_millis(500)).await;
        let report = serde_json::to_value(stage.service.observe().await.unwrap()).unwrap();
        let expected = serde_json::json!({
            "bucket_level": 5.0, "shared_rate": true, "open": 2, "waiting_for_rate": 0, "in_flight": 1, "contacts": 1,
            "restarts": 0, "calls": {"/fb/subscriber/addTagByName": {"429": 1, "response_error": 1}}
        });
        assert_eq!(report, expected);
        for text in texts {
            text.abort();
        }
    });
}

/// A client that fails in an unforeseen way fails its call and nothing else.
#[test]
fn a_panic_of_the_client_ends_one_call() {
    crate::telemetry::panic_hook::silence_played();
    on_stage(Duration::ZERO, Alone::default(), |stage| async move {
        let error = stage.tag("1", "panic").await.unwrap_err();
        assert_eq!((error.reason(), error.may_have_acted()), (Some("network"), true));
        assert_eq!(stage.tag("1", "t").await, Ok(()));
    });
}

/// Makes the actor fail.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::actors::manychat) struct Explode;

impl Handler<Explode> for ManyChatActor {
    type Result = ();

    fn handle(&mut self, _: Explode, _: &mut Context<Self>) {
        panic!("played failure of the actor");
    }
}

/// ARC-22: an actor that fails is replaced and counted; callers learn what is known of their orders, and what had not
/// been taken out of the channel is done by the successor, without a burst.
#[test]
fn a_failed_actor_is_replaced() {
    crate::telemetry::panic_hook::silence_played();
    let runtime: &'static tokio::runtime::Runtime = Box::leak(Box::new(
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ));
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    system.block_on(async {
        let arbiter = actix_rt::Arbiter::with_tokio_rt(move || runtime);
        let stage = Stage::new(Duration::from_secs(600), Alone::default(), Some(arbiter.handle()));
        let under_way = tokio::spawn({
            let handle = stage.handle.clone();
            async move {
                let flow = Action::SendFlow { flow_ns: "x".into() };
                handle.perform(&contact("1"), flow, Priority::Background).await
            }
        });
        while stage.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        stage.service.explode();
        let error = under_way.await.unwrap().unwrap_err();
        assert_eq!((error.reason(), error.may_have_acted()), (Some("network"), true));
        let next = stage.text("2", "after");
        while stage.calls().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stage.service.observe().await.unwrap().restarts, 1);
        assert_eq!(stage.calls()[1].1, "2 reply after");
        next.abort();
        stage.service.stop();
        arbiter.stop();
    });
}
