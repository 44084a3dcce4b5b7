//! What holds for every sequence of calls.

use proptest::prelude::*;

use super::super::super::limits::{MOST_ACTIONS, MOST_READS};
use super::super::super::note;
use super::*;

/// Calls of a model that tries everything, the impossible included.
fn any_call() -> impl Strategy<Value = Call> {
    let flows = ["wheel_brochure", "glaze_brochure", "studio_tour", "pay_page", "hello_card"];
    let stages = ["new", "qualifying", "nurturing", "offered", "prepared", "link_sent"];
    let planted = "+54 9 11 5555 0188 mia@studio.example https://studio.example/a";
    prop_oneof![
        4 => (prop::sample::select(flows.to_vec()), any::<bool>()).prop_map(|(flow, gate)| asked(flow, gate)),
        4 => prop::sample::select(stages.to_vec()).prop_map(|stage| set("sale_stage", stage)),
        2 => prop::sample::select(vec!["wheel", "glaze"]).prop_map(|class| set("what_class", class)),
        2 => prop::sample::select(vec!["prospect", "not_prospect"]).prop_map(|purpose| set("purpose", purpose)),
        1 => prop::sample::select(vec!["weekday", "saturday"]).prop_map(|day| set("day_choice", day)),
        1 => prop::sample::select(vec!["likes_glaze", "has_kiln", "vip"]).prop_map(tagged),
        2 => ("[a-z ]{0,9}", prop::sample::select(vec!["goal", "handover"]))
            .prop_map(move |(words, note)| noted(note, &format!("{words} {planted} {words}"))),
        1 => Just(call("schedule_nudge", json!({ "delay": "noon" }))),
        1 => Just(call("get_contact", json!({}))),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Vec<Call>>> {
    prop::collection::vec(prop::collection::vec(any_call(), 1..9), 1..4)
}

struct Run {
    world: Arc<World>,
    tools: TurnTools,
}

impl Run {
    fn of(steps: Vec<Vec<Call>>, at_call: bool, refused: bool, intent: Option<Intent>) -> Self {
        let world = World::new();
        world.reads.lock().unwrap().extend((0..9).map(|_| Ok(ContactInfo::default())));
        if refused {
            for name in ["ns_pay_page", "ns_studio_tour", "pottery_stage=offered"] {
                world.refuse(name);
            }
        }
        let mode = if at_call { world.mode() } else { FlowMode::Staged };
        let tools = TurnTools::new(offer(shop(), Known { intent, ..Known::default() }, mode));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for calls in steps {
            let count = calls.len();
            assert_eq!(runtime.block_on(tools.call_all(calls)).len(), count);
        }
        Self { world, tools }
    }

    fn finish(&self, ending: Ending) -> Finished {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(self.tools.finish(ending))
    }
}

/// The stages that ManyChat hears of, in the order in which it does: those sent in the turn, then the staged ones.
fn stages_heard(run: &Run, finished: &Finished) -> Vec<Stage> {
    let sent = run.world.asked();
    let sent = sent
        .iter()
        .filter_map(|name| name.strip_prefix("pottery_stage=").and_then(|stage| stage.parse().ok()));
    let staged = finished
        .staged
        .iter()
        .flat_map(|staged| std::iter::successors(Some(&staged.action), |action| action.follow_on()));
    let staged = staged.filter_map(|action| match action {
        Action::SetField { id, value, .. } if id == "sale_stage" => value.parse().ok(),
        _ => None,
    });
    sent.chain(staged).collect()
}

fn endings() -> impl Strategy<Value = Ending> {
    prop::sample::select(vec![Ending::Answered, Ending::Escalated, Ending::Failed, Ending::Aborted])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// STAGE-3, READ-7, RUN-9, REC-5, REC-6: never more than eight slots and two reads; dropped entries last and once each; the
    /// n-th staged entry belongs to the n-th staged action, in the order of the numbers.
    #[test]
    fn slots_reads_and_record_hold(steps in steps(), at_call: bool, refused: bool, known: bool, ending in endings()) {
        let run = Run::of(steps, at_call, refused, known.then_some(Intent::Prospect));
        let finished = run.finish(ending);
        let record = finished.record.clone().unwrap_or_default();
        prop_assert!(*run.world.read_count.lock().unwrap() <= usize::from(MOST_READS));
        let follow_on = |entry: &&Entry| {
            entry.tool == "send_event" || entry.value.as_deref() == Some("link_sent")
        };
        let dropped = |entry: &&Entry| entry.status == Status::DroppedOverCap;
        let slots = record.iter().filter(|entry| !follow_on(entry) && !dropped(entry)).count();
        prop_assert!(slots <= MOST_ACTIONS, "{:?}", short(&record));
        let first_dropped = record.iter().position(|entry| entry.status == Status::DroppedOverCap).unwrap_or(record.len());
        prop_assert!(record[first_dropped..].iter().all(|entry| entry.status == Status::DroppedOverCap));
        let flows: Vec<_> = record.iter().filter(|entry| entry.tool == "send_flow").map(|entry| &entry.id).collect();
        let mut once = flows.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), flows.len(), "a flow stands once: {:?}", short(&record));
        let staged: Vec<_> = record.iter().filter(|entry| entry.status == Status::Staged).cloned().collect();
        let actions: Vec<_> = finished.staged.iter().map(|staged| staged.action.entry(Status::Staged, None)).collect();
        prop_assert_eq!(staged, actions);
        prop_assert!(finished.staged.windows(2).all(|pair| pair[0].number < pair[1].number));
    }

    /// FN-STAGE-4, FN-STAGE-5, FLOW-3: whatever is called, ManyChat never hears of a lower stage after a higher one.
    #[test]
    fn the_stage_never_goes_back(steps in steps(), at_call: bool) {
        let run = Run::of(steps, at_call, false, None);
        let finished = run.finish(Ending::Answered);
        let heard = stages_heard(&run, &finished);
        prop_assert!(heard.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", heard);
    }

    /// TGATE-2: nothing but intent writes and notes while nobody means to buy.
    #[test]
    fn nothing_passes_a_closed_gate(steps in steps(), at_call: bool) {
        let steps: Vec<Vec<Call>> = steps
            .into_iter()
            .map(|calls| calls.into_iter().filter(|call| call.arguments["value"] != "prospect").collect())
            .collect();
        let run = Run::of(steps, at_call, false, Some(Intent::NotProspect));
        for entry in run.finish(Ending::Answered).record.unwrap() {
            prop_assert!(entry.tool == "write_note" || entry.id == "purpose", "{:?}", entry);
        }
        prop_assert!(run.world.asked().is_empty());
    }

    /// NOTE-2, NOTE-6, ARC-62: no note holds what was planted, no record holds a note.
    #[test]
    fn notes_are_clean_whatever_is_called(steps in steps(), at_call: bool) {
        let run = Run::of(steps, at_call, false, Some(Intent::Prospect));
        let finished = run.finish(Ending::Answered);
        for staged in &finished.staged {
            if let Action::WriteNote { text, .. } = &staged.action {
                let text = text.expose();
                prop_assert!(!text.contains("0188") && !text.contains('@') && !text.contains("http"), "{}", text);
                prop_assert!(note::units(text) <= 400);
            }
        }
        let record = serde_json::to_string(&finished.record).unwrap();
        prop_assert!(!record.contains("[removed]") && !record.contains("ns_") && !record.contains("pottery_"), "{}", record);
    }
}
