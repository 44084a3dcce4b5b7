use serde_json::Value;

use super::*;

fn contact(name: &str) -> SubscriberId {
    SubscriberId::new(name).unwrap()
}

fn said(text: &str) -> What {
    What::Said { text: text.to_owned(), state: Progress::Sending }
}

fn shown(update: Option<Update>) -> Value {
    serde_json::to_value(update.unwrap()).unwrap()
}

/// DEC-16: a page that comes (back) gets everything, one that stayed gets what is new, and nothing twice.
#[test]
fn a_page_is_told_what_it_has_not_seen() {
    let board = Board::new(About::default(), Switches::default());
    board.add(contact("1"), ChannelName::Whatsapp);
    board.add(contact("2"), ChannelName::Telegram);
    board.write(&contact("1"), ChannelName::Whatsapp, said("first"));
    let whole = shown(board.since(None));
    assert_eq!(whole["whole"], true);
    assert_eq!(whole["order"], serde_json::json!(["1", "2"]));
    let seen = whole["revision"].as_u64();
    assert!(board.since(seen).is_none(), "nothing is new");
    let id = board.write(&contact("1"), ChannelName::Whatsapp, said("second"));
    let news = shown(board.since(seen));
    assert_eq!(news["whole"], false);
    assert_eq!(news["contacts"].as_array().unwrap().len(), 1);
    assert_eq!(news["contacts"][0]["entries"].as_array().unwrap().len(), 1);
    assert_eq!(news["contacts"][0]["entries"][0]["text"], "second");
    let seen = news["revision"].as_u64();
    board.mark(&contact("1"), id, Progress::Answered);
    let marked = shown(board.since(seen));
    assert_eq!(marked["contacts"][0]["entries"][0]["state"], "answered");
    assert_eq!(marked["contacts"][0]["entries"][0]["id"], id);
}

/// DEC-16: whoever is written to without being on the board comes from an earlier run, and is shown all the same.
#[test]
fn a_delivery_to_an_unknown_contact_is_shown() {
    let board = Board::new(About::default(), Switches::default());
    let what = What::Delivered { text: "late".to_owned() };
    board.write(&contact("from-before"), ChannelName::Whatsapp, what);
    let update = shown(board.since(None));
    assert_eq!(update["contacts"][0]["known_before"], true);
    assert_eq!(update["contacts"][0]["entries"][0]["kind"], "delivered");
}

/// The board stays small however long somebody plays.
#[test]
fn contacts_and_entries_are_bounded() {
    let board = Board::new(About::default(), Switches::default());
    for number in 0..MOST_CONTACTS + 5 {
        board.add(contact(&number.to_string()), ChannelName::Whatsapp);
    }
    assert_eq!(board.subscribers().len(), MOST_CONTACTS);
    assert_eq!(board.subscribers()[0], "5");
    for number in 0..MOST_ENTRIES + 5 {
        board.write(&contact("6"), ChannelName::Whatsapp, said(&number.to_string()));
    }
    let update = shown(board.since(None));
    let chat = update["contacts"].as_array().unwrap().iter().find(|shown| shown["id"] == "6").unwrap();
    assert_eq!(chat["entries"].as_array().unwrap().len(), MOST_ENTRIES);
    assert_eq!(chat["entries"][0]["text"], "5");
}

/// A record that says what is known wakes no page; a change does.
#[test]
fn an_equal_record_wakes_nobody() {
    let board = Board::new(About::default(), Switches::default());
    board.add(contact("1"), ChannelName::Whatsapp);
    let record = |waiting| ContactRecord {
        subscriber: "1".to_owned(),
        turns: 1,
        running: false,
        last: None,
        handoff: None,
        waiting,
        attempts: 0,
        due_ms: None,
        last_error: None,
        given_up: 0,
        given_up_error: None,
        actions: Vec::new(),
        tools_offered: false,
    };
    board.set_records(vec![record(0)], true);
    let changes = board.changes();
    board.set_records(vec![record(0)], true);
    assert!(!changes.has_changed().unwrap());
    board.set_records(vec![record(1)], true);
    assert!(changes.has_changed().unwrap());
    assert_eq!(shown(board.since(None))["contacts"][0]["record"]["waiting"], 1);
    board.set_records(vec![record(1)], false);
    assert_eq!(
        shown(board.since(None))["contacts"][0]["record"]["calls"],
        false,
        "DEC-25: nobody is notified"
    );
}
