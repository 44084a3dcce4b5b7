use super::*;

fn entry(tool: &str, id: &str, status: Status) -> Entry {
    Entry {
        tool: tool.to_owned(),
        id: id.to_owned(),
        value: None,
        length: None,
        status,
        error: None,
        origin: None,
        contact_asked: false,
    }
}

const RECORD: &str = r#"[{"tool":"add_tag", "id":"a","status":"staged"},{"status":"performed","tool":"plugin","id":"b","x":1.50},{"tool":"set_field","id":"c","value":"v","status":"staged","strange":[1]},17]"#;

/// 08/REC-2, 08/REC-4: the keys that are present, and no others.
#[test]
fn an_entry_has_the_documented_keys() {
    let note = Entry { length: Some(61), ..entry("write_note", "handover", Status::Staged) };
    let note = serde_json::to_string(&note).unwrap();
    assert_eq!(note, r#"{"tool":"write_note","id":"handover","length":61,"status":"staged"}"#);
    let link = Entry {
        contact_asked: true,
        origin: Some(FlowOrigin::Stage),
        error: Some("no".to_owned()),
        ..entry("send_flow", "pay_page", Status::DroppedOverCap)
    };
    assert_eq!(
        serde_json::to_value(&link).unwrap(),
        serde_json::json!({"tool": "send_flow", "id": "pay_page", "status": "dropped_over_cap", "error": "no",
            "origin": "stage", "contactAsked": true})
    );
    assert_eq!(serde_json::from_value::<Entry>(serde_json::to_value(&link).unwrap()).unwrap(), link);
    for status in [
        Status::Staged,
        Status::Performed,
        Status::Failed,
        Status::Discarded,
        Status::DroppedOverCap,
        Status::DeadLettered,
    ] {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
}

/// REC-6, FN-REC-2: outcome groups take the places of staged entries; everything else keeps every byte.
#[test]
fn outcomes_replace_staged_entries_in_their_places() {
    let first = vec![entry("add_tag", "a", Status::Failed)];
    let second =
        vec![entry("set_field", "c", Status::Performed), entry("send_event", "e", Status::Performed)];
    let resolved = resolve(RECORD, &[first.clone(), second]).unwrap();
    assert_eq!(
        resolved,
        r#"[{"tool":"add_tag","id":"a","status":"failed"},{"status":"performed","tool":"plugin","id":"b","x":1.50},{"tool":"set_field","id":"c","status":"performed"},{"tool":"send_event","id":"e","status":"performed"},17]"#
    );
    let half = resolve(RECORD, &[first]).unwrap();
    assert!(
        half.contains(r#"{"tool":"set_field","id":"c","value":"v","status":"staged","strange":[1]}"#),
        "{half}"
    );
    let second_only = resolve(RECORD, &[Vec::new(), vec![entry("set_field", "c", Status::Failed)]]).unwrap();
    assert!(second_only.starts_with(r#"[{"tool":"add_tag", "id":"a","status":"staged"},"#), "{second_only}");
    assert_eq!(staged_count(&second_only), 1);
}

/// PERF-6, ARC-41: what is left staged ends with one word, and keeps what it says otherwise.
#[test]
fn what_is_still_staged_can_be_ended() {
    let ended = end_staged(RECORD, Status::DeadLettered, None).unwrap();
    assert_eq!(staged_count(&ended), 0);
    let read: Value = serde_json::from_str(&ended).unwrap();
    assert_eq!(
        read[2],
        serde_json::json!({"tool": "set_field", "id": "c", "value": "v", "status": "dead_lettered", "strange": [1]})
    );
    let failed = end_staged(RECORD, Status::Failed, Some("process ended first")).unwrap();
    assert!(failed.contains(r#""error":"process ended first""#));
}

/// A row that holds no list is left alone.
#[test]
fn a_record_that_is_no_list_is_refused() {
    assert!(
        resolve("null", &[]).is_err()
            && resolve("{}", &[]).is_err()
            && end_staged("", Status::Failed, None).is_err()
    );
    assert_eq!((staged_count("null"), staged_count(RECORD)), (0, 2));
}
