//! Attempts against a database and a ManyChat that answers as it is told.

use std::future::poll_fn;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::contact_reach::TurnPlace;
use super::super::reach::{ActionNumber, Reach};
use super::super::test_support::{Kept, shop, tenant};
use super::*;
use crate::domain::{AgentRowId, Redacted};
use crate::manychat::{Answer, Letter, LostBy, ManyChatError, Said, Unstarted};
use crate::store::testing::ActingTurn;
use serde_json::json;

pub(in crate::tools) type Script = Box<dyn Fn(&manychat::Action) -> Result<(), ManyChatError> + Send>;

/// A contact's turn, and a ManyChat that answers by a script.
pub(in crate::tools) struct Bench {
    pub(in crate::tools) performer: Performer,
    pub(in crate::tools) acting: ActingTurn,
    /// What reached ManyChat.
    made: Arc<Mutex<Vec<String>>>,
    /// Orders in its queue, made or not.
    queued: Arc<AtomicUsize>,
}

const CONTACT: &str = "70010001";

impl Bench {
    pub(in crate::tools) async fn new(script: Script) -> Self {
        let acting = ActingTurn::of(CONTACT).await;
        let made = Arc::new(Mutex::new(Vec::new()));
        let queued = Arc::new(AtomicUsize::new(0));
        let manychat = answering(script, Arc::clone(&made), Arc::clone(&queued));
        let mut tools = shop();
        tools.fields.iter_mut().filter(|field| field.funnel).for_each(|field| field.id = "stage".to_owned());
        let marks = Marks::of(tenant(tools));
        let performer = Performer { database: acting.database.clone(), manychat, marks };
        Self { performer, acting, made, queued }
    }

    pub(in crate::tools) fn reach(&self, second_run: bool) -> Arc<dyn Reach> {
        self.performer.reach(TurnPlace {
            turn: self.acting.turn,
            conversation: ConversationId::from(*self.acting.turn.as_uuid()),
            subscriber: SubscriberId::stored(CONTACT),
            process: self.acting.process,
            second_run,
            once: vec!["a".to_owned()],
        })
    }

    fn open(&self, actions: Value) -> OpenActions {
        OpenActions {
            row: AgentRowId::from(*self.acting.turn.as_uuid()),
            conversation: ConversationId::from(*self.acting.turn.as_uuid()),
            subscriber: SubscriberId::stored(CONTACT),
            process: self.acting.process,
            actions: Redacted::new(actions),
            attempted: Vec::new(),
            recovered: false,
            outrun: false,
        }
    }

    async fn perform(&self, open: &OpenActions) -> Vec<Vec<(String, Status)>> {
        let mut progress = Progress::default();
        self.performer.perform(open, &mut progress).await.unwrap();
        progress.groups.iter().map(|group| group.iter().map(short).collect()).collect()
    }

    fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    pub(in crate::tools) fn made(&self) -> Vec<String> {
        self.made.lock().unwrap().clone()
    }
}

fn short(entry: &Entry) -> (String, Status) {
    (entry.id.clone(), entry.status)
}

fn named(action: &manychat::Action) -> String {
    match action {
        manychat::Action::SendFlow { flow_ns } => flow_ns.clone(),
        manychat::Action::AddTag { tag } | manychat::Action::RemoveTag { tag } => tag.clone(),
        manychat::Action::SetField { field, value } => format!("{field}={}", value.expose()),
        other => panic!("{other:?} is no action of a turn"),
    }
}

fn answering(script: Script, made: Arc<Mutex<Vec<String>>>, queued: Arc<AtomicUsize>) -> manychat::Handle {
    let (handle, mut orders) = manychat::channel();
    tokio::spawn(async move {
        while let Some(letter) = poll_fn(|context| orders.poll_next(context)).await {
            let Letter::Place(order) = letter else { continue };
            queued.fetch_add(1, Ordering::AcqRel);
            let outcome = script(&order.request.action).map(|()| Answer::Accepted);
            if matches!(outcome, Err(ManyChatError::NotStarted { .. })) {
                order.slot.answer(outcome);
                continue;
            }
            if !order.slot.start() {
                continue;
            }
            if let Some(gate) = order.gate
                && !gate.opens().await
            {
                order.slot.answer(Err(ManyChatError::NotStarted { reason: Unstarted::NotWanted }));
                continue;
            }
            made.lock().unwrap().push(named(&order.request.action));
            order.slot.answer(outcome);
        }
    });
    handle
}

pub(in crate::tools) fn accepts() -> Script {
    Box::new(|_| Ok(()))
}

fn refusal(status: u16) -> ManyChatError {
    ManyChatError::Api {
        endpoint: manychat::Endpoint::SendFlow,
        status,
        code: None,
        said: Said::default(),
        retry_after: None,
    }
}

pub(in crate::tools) fn refuses(name: &'static str, status: u16) -> Script {
    Box::new(move |action| if named(action) == name { Err(refusal(status)) } else { Ok(()) })
}

pub(in crate::tools) fn payment_link() -> Action {
    serde_json::from_value(json!({
        "tool": "send_flow", "id": "pay", "flowNs": "flow-pay", "contactAsked": true,
        "followOn": { "tool": "set_field", "id": "stage", "field": "f_stage", "value": "link_sent",
                      "followOn": { "tool": "send_event", "id": "event", "flowNs": "flow-event" } },
    }))
    .unwrap()
}

pub(in crate::tools) fn flow(id: &str) -> Action {
    serde_json::from_value(json!({ "tool": "send_flow", "id": id, "flowNs": format!("flow-{id}") })).unwrap()
}

/// PERF-2, PERF-3, FLOW-2: the chain goes on while each is accepted, and every request was written down first.
#[tokio::test(flavor = "multi_thread")]
async fn a_flow_and_what_hangs_on_it_go_out_in_order() {
    let bench = Bench::new(accepts()).await;
    let group = bench.reach(false).send(ActionNumber(2), payment_link()).await;
    let ended: Vec<_> = group.iter().map(short).collect();
    assert_eq!(ended, ["pay", "stage", "event"].map(|id| (id.to_owned(), Status::Performed)));
    assert!(group[0].contact_asked);
    assert_eq!(bench.made(), ["flow-pay", "f_stage=link_sent", "flow-event"]);
    let attempts = bench.acting.attempts().await;
    let ended: Vec<_> = attempts.iter().map(|(number, outcome, _)| (*number, outcome.as_deref())).collect();
    assert_eq!(ended, [16, 17, 18].map(|number| (number, Some("performed"))));
    for entry in bench.acting.record().await {
        let entry = entry.to_string();
        assert!(!entry.contains("flow-") && !entry.contains("f_"), "REC-3: no name of ManyChat on record");
    }
}

/// PERF-3: a refused action takes nothing along.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_flow_takes_nothing_along() {
    let bench = Bench::new(refuses("flow-pay", 400)).await;
    let group = bench.reach(false).send(ActionNumber(0), payment_link()).await;
    assert_eq!(group.iter().map(short).collect::<Vec<_>>(), [("pay".to_owned(), Status::Failed)]);
    assert!(group[0].error.as_deref().unwrap().starts_with("ManyChat refused"));
    assert_eq!(bench.made(), ["flow-pay"]);
}

/// STAGE-5, FLOW-5: asking again with the same number asks ManyChat nothing; a send that nobody waits for goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_made_once_and_goes_on_by_itself() {
    let bench = Bench::new(accepts()).await;
    let reach = bench.reach(false);
    drop(reach.send(ActionNumber(0), flow("a")));
    let (first, again) = (reach.send(ActionNumber(0), flow("a")), reach.send(ActionNumber(0), flow("a")));
    assert_eq!(first.await, again.await);
    assert_eq!(bench.made(), ["flow-a"]);
}

/// LIM-6: sends reach ManyChat in the order in which they were taken on, each with what hangs on it.
#[tokio::test(flavor = "multi_thread")]
async fn sends_of_one_turn_go_one_after_the_other() {
    let bench = Bench::new(accepts()).await;
    let reach = bench.reach(false);
    let sends = [reach.send(ActionNumber(0), payment_link()), reach.send(ActionNumber(1), flow("a"))];
    futures_util::future::join_all(sends).await;
    assert_eq!(bench.made(), ["flow-pay", "f_stage=link_sent", "flow-event", "flow-a"]);
}

/// ARC-46: the numbers of a second run are its own, so that its actions are not taken for the first's.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_counts_anew() {
    let bench = Bench::new(accepts()).await;
    bench.reach(false).send(ActionNumber(0), flow("a")).await;
    let group = bench.reach(true).send(ActionNumber(0), flow("b")).await;
    assert_eq!(group[0].status, Status::Performed);
    assert_eq!(bench.made(), ["flow-a", "flow-b"]);
}

/// FLOW-6, ARC-41, LIM-3: after a time-out, a 5xx or garbage nobody knows; after a refusal everybody does.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_nobody_knows_says_so() {
    let bench = Bench::new(refuses("flow-a", 503)).await;
    let group = bench.reach(false).send(ActionNumber(0), flow("a")).await;
    assert!(group[0].error.as_deref().unwrap().starts_with("outcome unknown: ManyChat refused"));
    let sent = |sent| ManyChatError::Connection {
        endpoint: manychat::Endpoint::SendFlow,
        reason: LostBy::Timeout,
        sent,
    };
    let contact = SubscriberId::stored(CONTACT);
    assert!(failure_of(&sent(true), &flow("a"), &contact).text.starts_with("outcome unknown"));
    assert!(failure_of(&sent(false), &flow("a"), &contact).text.starts_with("no answer"));
    assert!(failure_of(&ManyChatError::NoToken, &flow("a"), &contact).text.contains("MANYCHAT_API_TOKEN"));
}

/// FLOW-6, FLOW-11, ARC-41: what ManyChat was not asked for says so in the word of everything that is not attempted, takes
/// nothing along, has no attempt and stays unsent: it goes out when it is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn what_manychat_was_not_asked_for_was_not_attempted() {
    let paused = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let still = Arc::clone(&paused);
    let not_started = ManyChatError::NotStarted { reason: Unstarted::Paused };
    let bench =
        Bench::new(Box::new(
            move |_| {
                if still.load(Ordering::Acquire) { Err(not_started.clone()) } else { Ok(()) }
            },
        ))
        .await;
    let group = bench.reach(false).send(ActionNumber(0), payment_link()).await;
    let [entry] = &group[..] else { panic!("{group:?}") };
    let error = "not attempted: ManyChat wants fewer calls for longer than this one can wait";
    assert_eq!((entry.status, entry.error.as_deref()), (Status::Failed, Some(error)));
    assert!(bench.made().is_empty() && bench.acting.attempts().await.is_empty());
    paused.store(false, Ordering::Release);
    let group = bench.reach(false).send(ActionNumber(1), payment_link()).await;
    assert!(group.iter().all(|entry| entry.status == Status::Performed), "{group:?}");
    assert_eq!(bench.made().len(), 3);
}

/// AFTER-3, STAGE-6: staged actions run in order, and a failure stops nothing but what hangs on it.
#[tokio::test(flavor = "multi_thread")]
async fn staged_actions_run_in_order_whatever_fails() {
    let bench = Bench::new(refuses("tag-b", 400)).await;
    let open = bench.open(json!([
        { "tool": "add_tag", "id": "a", "tag": "tag-a" },
        { "tool": "remove_tag", "id": "b", "tag": "tag-b" },
        { "tool": "write_note", "id": "n", "field": "f_note", "text": "Likes boats.", "onEscalation": false },
        { "tool": "plugin_thing", "id": "x" },
        { "tool": "schedule_nudge", "id": "tonight", "minutes": 60 },
    ]));
    let groups = bench.perform(&open).await;
    let expected = [
        ("a", Status::Performed),
        ("b", Status::Failed),
        ("n", Status::Performed),
        ("x", Status::Failed),
        ("tonight", Status::Performed),
    ];
    assert_eq!(groups, expected.map(|(id, status)| vec![(id.to_owned(), status)]));
    assert_eq!(bench.made(), ["tag-a", "tag-b", "f_note=Likes boats."]);
    assert_eq!(bench.acting.nudges().await, 1, "NTOOL-4");
    for (_, _, entry) in bench.acting.attempts().await {
        assert!(!entry.to_string().contains("boats"), "NOTE-6: an attempt keeps no note");
    }
}

/// ARC-41: what a dead process has attempted keeps its outcome, what hung on it and was never attempted is performed now.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_dead_have_attempted_is_not_repeated() {
    let bench = Bench::new(accepts()).await;
    let write = json!({ "tool": "set_field", "id": "stage", "field": "f", "value": "offered",
                        "followOn": { "tool": "send_event", "id": "event", "flowNs": "flow-event" } });
    let tag = |id: &str| json!({ "tool": "add_tag", "id": id, "tag": format!("tag-{id}") });
    let mut open = bench.open(json!([tag("done"), tag("begun"), write, tag("never")]));
    let entry = |id: &str, status: &str| json!({ "tool": "add_tag", "id": id, "status": status });
    open.attempted = vec![
        (0, entry("done", "performed")),
        (8, entry("begun", "failed")),
        (16, entry("stage", "performed")),
    ];
    let groups = bench.perform(&open).await;
    let ids = groups.iter().map(|group| group.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>());
    assert_eq!(ids.collect::<Vec<_>>(), [vec!["done"], vec!["begun"], vec!["stage", "event"], vec!["never"]]);
    assert_eq!(bench.made(), ["flow-event", "tag-never"]);
}

/// ARC-41: when a later turn has settled, what was never attempted is not any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_outrun_is_not_performed() {
    let bench = Bench::new(accepts()).await;
    let mut open = bench.open(json!([{ "tool": "add_tag", "id": "a", "tag": "tag-a" }]));
    open.outrun = true;
    let mut progress = Progress::default();
    // The line is known before anybody listens: another test's thread that met it first would have it left out here.
    bench.performer.perform(&open, &mut Progress::default()).await.unwrap();
    let kept = Kept::default();
    let subscriber =
        crate::telemetry::subscriber(crate::telemetry::LogLevel::Trace, &[], kept.clone()).unwrap();
    let listening = tracing::subscriber::set_default(subscriber);
    tracing::callsite::rebuild_interest_cache();
    bench.performer.perform(&open, &mut progress).await.unwrap();
    drop(listening);
    assert_eq!(progress.groups[0][0].error.as_deref(), Some("process ended first"));
    assert!(bench.made().is_empty());
    let written = kept.written();
    let line = written.lines().find(|line| line.contains("action failed"));
    let line: Value = serde_json::from_str(line.unwrap_or_else(|| panic!("{written}"))).unwrap();
    let told = (&line["msg"], &line["tool"], &line["id"], &line["error"]);
    let expected = (&json!("action failed"), &json!("add_tag"), &json!("a"), &json!("process ended first"));
    assert_eq!(told, expected, "08 section 14: what fails without a request is told as well");
}

/// ARC-45: actions that are somebody else's are left alone, at the point where that shows.
#[tokio::test(flavor = "multi_thread")]
async fn actions_of_others_are_left_alone() {
    let bench = Bench::new(accepts()).await;
    let open = bench.open(json!([{ "tool": "add_tag", "id": "a", "tag": "tag-a" }]));
    bench.acting.give_away().await;
    let mut progress = Progress::default();
    assert_eq!(bench.performer.perform(&open, &mut progress).await, Err(Stopped::Superseded));
    assert!(progress.groups.is_empty() && bench.made().is_empty());
}

/// ARC-48, FN-STAGE-5: asking whether another turn's write of the stage has ended takes no place in ManyChat's queue, and so
/// none in its rate; neither behind a reply nor while a model runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waits_for_anothers_takes_no_place_at_manychat() {
    let bench = Bench::new(accepts()).await;
    bench.acting.write_under_way("stage", "offered").await;
    let write = json!({ "tool": "set_field", "id": "stage", "field": "f", "value": "offered" });
    let open = bench.open(json!([write]));
    let mut progress = Progress::default();
    let action: Action = serde_json::from_value(write).unwrap();
    let place = Place {
        conversation: open.conversation,
        subscriber: open.subscriber.clone(),
        process: open.process,
        under: Under::Turn(bench.acting.turn),
        once: Arc::default(),
        marks: bench.performer.marks.clone(),
    };
    let attempt = attempt_of(&place, PER_ACTION, &action);
    for _ in 0..3 {
        assert_eq!(bench.performer.perform(&open, &mut progress).await, Err(Stopped::Behind));
        let tried = bench.performer.once(&place, &attempt, &action, Priority::InRequest).await;
        assert!(matches!(tried, Tried::Stopped(Stopped::Behind, _)));
    }
    assert_eq!(bench.queued(), 0);
    bench.acting.end_writes().await;
    bench.performer.perform(&open, &mut progress).await.unwrap();
    let tried = bench.performer.once(&place, &attempt, &action, Priority::InRequest).await;
    assert!(matches!(tried, Tried::Entry(entry) if entry.status == Status::Performed));
    assert_eq!((bench.queued(), bench.made().len()), (2, 2));
}

/// ARC-48, ARC-45: nor does finding out that the actions are somebody else's.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_made_takes_no_place_at_manychat() {
    let bench = Bench::new(accepts()).await;
    let open = bench.open(json!([{ "tool": "add_tag", "id": "a", "tag": "tag-a" }]));
    bench.acting.give_away().await;
    let performed = bench.performer.perform(&open, &mut Progress::default()).await;
    assert_eq!((performed, bench.queued()), (Err(Stopped::Superseded), 0));
}

/// PERF-3, ARC-41: a database that is away in the middle of a chain costs none of it: what was done stays, the rest goes
/// on where it stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_on_where_the_database_was_away() {
    let bench = Bench::new(accepts()).await;
    let open = bench.open(json!([{
        "tool": "set_field", "id": "stage", "field": "f", "value": "offered",
        "followOn": { "tool": "send_event", "id": "event", "flowNs": "flow-event" },
    }]));
    bench.acting.refuse_attempt(1).await;
    let mut progress = Progress::default();
    for _ in 0..2 {
        assert_eq!(bench.performer.perform(&open, &mut progress).await, Err(Stopped::NotNow));
    }
    bench.acting.refuse_attempt(-1).await;
    bench.performer.perform(&open, &mut progress).await.unwrap();
    let ended: Vec<_> = progress.groups[0].iter().map(short).collect();
    assert_eq!(ended, ["stage", "event"].map(|id| (id.to_owned(), Status::Performed)));
    assert_eq!(bench.made(), ["f=offered", "flow-event"]);
}

/// ARC-46a: an attempt of which nobody knows whether it was written down, and whose request was not made, is made.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_in_doubt_is_made_when_the_database_answers() {
    let bench = Bench::new(accepts()).await;
    let open = bench.open(json!([{ "tool": "add_tag", "id": "a", "tag": "tag-a" }]));
    bench.acting.refuse_attempt(0).await;
    let mut progress = Progress::default();
    assert_eq!(bench.performer.perform(&open, &mut progress).await, Err(Stopped::NotNow));
    bench.acting.refuse_attempt(-1).await;
    bench.acting.write_attempt(0).await;
    bench.performer.perform(&open, &mut progress).await.unwrap();
    assert_eq!(
        progress.groups[0].iter().map(short).collect::<Vec<_>>(),
        [("a".to_owned(), Status::Performed)]
    );
    assert_eq!(bench.made(), ["tag-a"]);
}

/// PERF-10, NOTE-6: an error holds neither the note nor the contact's id nor shapes of personal data, and is cut to 200
/// UTF-16 units without halving a character.
#[test]
fn an_error_is_cleaned_and_cut() {
    let note: Action = serde_json::from_value(
        json!({ "tool": "write_note", "id": "n", "field": "f", "text": "refused", "onEscalation": true }),
    )
    .unwrap();
    let text = failure_of(&refusal(400), &note, &SubscriberId::stored("400")).text;
    assert!(!text.contains("refused") && !text.contains("400"), "{text}");
    assert_eq!(cut(&"x".repeat(300)).len(), 200);
    assert_eq!(cut(&format!("{}🦀🦀", "x".repeat(199))).chars().count(), 199);
    assert_eq!(cut(&format!("{}🦀🦀", "x".repeat(198))).encode_utf16().count(), 200);
}

/// 08/REC-3: an error that repeats ManyChat's names keeps none of them, in whatever letters.
#[test]
fn an_error_names_nothing_of_manychat() {
    let contact = SubscriberId::stored("1");
    let text = |action: Value| {
        let action: Action = serde_json::from_value(action).unwrap();
        failure_of(&refusal(404), &action, &contact).text.to_lowercase()
    };
    let other = json!({ "tool": "add_tag", "id": "x", "tag": "other" });
    assert!(text(other).starts_with("manychat refused"), "the word stands in every refusal");
    for action in [
        json!({ "tool": "send_flow", "id": "x", "flowNs": "refused" }),
        json!({ "tool": "add_tag", "id": "x", "tag": "Refused" }),
        json!({ "tool": "remove_tag", "id": "x", "tag": "refused" }),
        json!({ "tool": "set_field", "id": "x", "field": "REFUSED", "value": "v" }),
        json!({ "tool": "write_note", "id": "x", "field": "refused", "text": "n", "onEscalation": false }),
        json!({ "tool": "send_event", "id": "x", "flowNs": "refused" }),
    ] {
        assert!(!text(action.clone()).contains("refused"), "{action}");
    }
    let pattern = json!({ "tool": "add_tag", "id": "x", "tag": "ref.sed" });
    assert!(text(pattern).contains("refused"), "a name is no pattern");
}
