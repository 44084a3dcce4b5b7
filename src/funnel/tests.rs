use super::*;
use crate::config::FieldTool;

fn field(id: &str, values: &[&str]) -> FieldTool {
    FieldTool {
        id: id.to_owned(),
        field: format!("mc_{id}"),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        description: "…".to_owned(),
        funnel: false,
        offering: false,
        intent: false,
    }
}

fn flow(role: Option<FlowRole>, offering: Option<&str>) -> FlowTool {
    FlowTool {
        id: "flow".to_owned(),
        description: "…".to_owned(),
        flow_ns: "ns".to_owned(),
        repeatable: false,
        role,
        on_stage: None,
        offering: offering.map(str::to_owned),
        settle_seconds: 0,
    }
}

fn shop() -> Tools {
    let fields = vec![
        FieldTool { funnel: true, ..field("stage", &["new"]) },
        FieldTool { intent: true, ..field("intent", &["not_prospect", "prospect"]) },
        FieldTool { offering: true, ..field("class", &["wheel", "glaze"]) },
    ];
    let events = vec![Event { id: "offer".to_owned(), stage: Stage::Offered, flow_ns: "ev".to_owned() }];
    Tools { fields, events, ..Tools::default() }
}

/// FN-INT-3: a stage past `new` counts as meaning to buy, and a recorded word beats it.
#[test]
fn a_contact_on_their_way_counts_as_a_prospect() {
    let intent = |stage, intent| Standing::at_start(&shop(), stage, intent, None).intent;
    assert_eq!(intent(None, None), None);
    assert_eq!(intent(Some(Stage::New), None), None);
    assert_eq!(intent(Some(Stage::Qualifying), None), Some(Intent::Prospect));
    assert_eq!(intent(Some(Stage::Offered), Some(Intent::NotProspect)), Some(Intent::NotProspect));
}

/// FN-OFF-4, FN-ACC-40
#[test]
fn an_offering_that_is_no_longer_sold_counts_as_none() {
    let offering = |named| Standing::at_start(&shop(), None, None, named).offering;
    assert_eq!(offering(Some("wheel")).as_deref(), Some("wheel"));
    assert_eq!(offering(Some("raku")), None);
    assert_eq!(Standing::at_start(&Tools::default(), None, None, Some("wheel")).offering, None);
}

/// TGATE-1, FN-INT-5
#[test]
fn the_gate_is_closed_until_the_contact_means_to_buy() {
    assert!(!gate_is_open(&shop(), None));
    assert!(!gate_is_open(&shop(), Some(Intent::NotProspect)));
    assert!(gate_is_open(&shop(), Some(Intent::Prospect)));
    assert!(gate_is_open(&Tools::default(), None));
}

/// SEND-4, FN-READY-1, FN-OFF-12: what holds from which stage on.
#[test]
fn the_link_needs_prepared_and_the_offering_is_locked_from_offered_on() {
    assert!(ends_the_sale(&shop(), &flow(Some(FlowRole::PaymentLink), None)));
    assert!(!ends_the_sale(&Tools::default(), &flow(Some(FlowRole::PaymentLink), None)));
    assert!(!ends_the_sale(&shop(), &flow(None, None)));
    let at = |check: fn(Option<Stage>) -> bool| {
        Stage::ALL.iter().filter(|stage| check(Some(**stage))).count() + usize::from(check(None))
    };
    assert_eq!(at(is_prepared), 2);
    assert_eq!(at(offering_is_locked), 3);
}

/// FLD-1, FN-EVT-4, FN-OFF-11
#[test]
fn an_event_fires_only_for_a_stage_that_was_not_recorded() {
    let fires = |recorded| event_of(&shop(), Stage::Offered, recorded).is_some();
    assert!(fires(None) && fires(Some(Stage::Nurturing)));
    assert!(!fires(Some(Stage::Offered)) && !fires(Some(Stage::LinkSent)));
    assert!(event_of(&shop(), Stage::Prepared, None).is_none());
    assert!(fits(&flow(None, None), None) && fits(&flow(None, Some("wheel")), Some("wheel")));
    assert!(!fits(&flow(None, Some("wheel")), None) && !fits(&flow(None, Some("wheel")), Some("glaze")));
}
