use super::*;
use crate::manychat::Class;

fn names() -> Names {
    Names {
        reply_field: "ai_message".to_owned(),
        reply_flow_ns: DEVELOPMENT_REPLY_FLOW.to_owned(),
        token_field: "ai_token".to_owned(),
    }
}

fn account() -> (Arc<DevelopmentAccount>, mpsc::UnboundedReceiver<Happening>) {
    DevelopmentAccount::new(names(), Residents::Everybody)
}

fn contact(name: &str) -> SubscriberId {
    SubscriberId::new(name).unwrap()
}

fn call(name: &str, command: Command) -> Call {
    Call { contact: contact(name), command }
}

fn field(name: &str, value: &str) -> Command {
    Command::SetField { field: name.to_owned(), value: ContactText::new(value) }
}

fn flow(flow_ns: &str) -> Command {
    Command::SendFlow { flow_ns: flow_ns.to_owned() }
}

fn tag(name: &str) -> Command {
    Command::AddTag { tag: name.to_owned() }
}

/// DEL-1, DEL-4: two contacts each get the text that was written for them, when the reply flow is played.
#[tokio::test]
async fn the_reply_flow_shows_what_the_reply_field_of_the_contact_holds() {
    let (account, mut happenings) = account();
    for (who, text) in [("1", "for one"), ("2", "for two")] {
        assert_eq!(account.call(call(who, field("ai_message", text))).await, Ok(Answer::Accepted));
    }
    assert!(happenings.try_recv().is_err(), "a written field shows nothing yet");
    for (who, text) in [("1", "for one"), ("2", "for two")] {
        account.call(call(who, flow(DEVELOPMENT_REPLY_FLOW))).await.unwrap();
        let seen = happenings.try_recv().unwrap();
        assert_eq!(seen.contact, contact(who));
        assert!(matches!(seen.what, Happened::Delivered(shown) if shown.expose() == text));
    }
}

/// API-23 to API-27, READ-2: flows, tags and fields are kept for their contact and can be read back.
#[tokio::test]
async fn flows_tags_and_fields_are_kept_and_told() {
    let (account, mut happenings) = account();
    let commands = [
        flow("content_of_the_tenant"),
        tag("open-day"),
        tag("open-day"),
        tag("gone"),
        Command::RemoveTag { tag: "gone".to_owned() },
        Command::RemoveTag { tag: "never".to_owned() },
        field("city", "Lisbon"),
        field("city", "Porto"),
    ];
    for command in commands {
        account.call(call("1", command)).await.unwrap();
    }
    let Answer::Contact(info) = account.call(call("1", Command::GetInfo)).await.unwrap() else { panic!() };
    assert_eq!(info.tags, ["open-day"]);
    assert_eq!(info.field("city").unwrap().expose(), "Porto");
    let mut told = Vec::new();
    while let Ok(happening) = happenings.try_recv() {
        told.push(happening.what);
    }
    assert_eq!(told.len(), 6, "what changes nothing is not told: {told:?}");
    let stranger = account.call(call("2", Command::GetInfo)).await.unwrap();
    assert_eq!(stranger, Answer::Contact(ContactInfo::default()));
}

/// TOK-24, OUT-3: a token is rendered into the contact's next request and shown to nobody, however it was written.
#[tokio::test]
async fn a_token_is_kept_and_never_shown() {
    let (account, mut happenings) = account();
    let token = Redacted::new("token-of-a-contact".to_owned());
    let write = Command::WriteToken { field: "ai_token".to_owned(), token };
    account.call(call("1", write)).await.unwrap();
    account.call(call("2", field("ai_token", "token-written-by-hand"))).await.unwrap();
    assert_eq!(account.token(&contact("1")).unwrap().expose(), "token-of-a-contact");
    assert_eq!(account.token(&contact("2")).unwrap().expose(), "token-written-by-hand");
    assert!(account.token(&contact("3")).is_none());
    for who in ["1", "2"] {
        let view = account.view(&contact(who));
        assert!(matches!(view.fields.as_slice(), [(name, None)] if name == "ai_token"), "{view:?}");
        let told = format!("{:?} {view:?}", happenings.try_recv().unwrap());
        assert!(!told.contains("token-of") && !told.contains("token-written"), "{told}");
    }
}

/// API-42 to API-47, BOX-13: each kind of trouble fails as ManyChat would, carries nothing out, and ends with it.
#[tokio::test(start_paused = true)]
async fn every_trouble_fails_as_manychat_would() {
    let expected = [
        (Trouble::TooManyRequests, Class::Retryable, Some(429), None, false),
        (Trouble::ServerError, Class::Retryable, Some(500), None, true),
        (Trouble::Timeout, Class::Retryable, None, Some("timeout"), true),
        (Trouble::Unreachable, Class::Retryable, None, Some("network"), false),
        (Trouble::Refused, Class::Final, Some(400), None, false),
    ];
    let (account, mut happenings) = account();
    for (trouble, class, status, reason, may_have_acted) in expected {
        account.set_trouble(trouble);
        let error = account.call(call("1", tag("tagged"))).await.unwrap_err();
        assert_eq!((error.class(), error.status(), error.reason()), (class, status, reason), "{trouble:?}");
        assert_eq!(error.may_have_acted(), may_have_acted, "{trouble:?}");
        assert!(matches!(happenings.try_recv().unwrap().what, Happened::Failed(told) if told == error));
    }
    assert!(account.view(&contact("1")).tags.is_empty());
    account.set_trouble(Trouble::None);
    account.call(call("1", tag("tagged"))).await.unwrap();
    assert_eq!(account.view(&contact("1")).tags, ["tagged"]);
}

/// API-3: slow is slow and nothing else; a time-out takes as long as a call may.
#[tokio::test(start_paused = true)]
async fn slow_calls_are_accepted_and_time_outs_take_their_time() {
    let (account, _happenings) = account();
    let started = tokio::time::Instant::now();
    account.set_trouble(Trouble::Slow);
    assert_eq!(account.call(call("1", tag("late"))).await, Ok(Answer::Accepted));
    assert_eq!(started.elapsed(), SLOW);
    account.set_trouble(Trouble::Timeout);
    assert!(account.call(call("1", tag("never"))).await.is_err());
    assert_eq!(started.elapsed(), SLOW + CALL_LIMIT);
}

/// 04 section 1.2: ManyChat refuses a flow without a name.
#[tokio::test]
async fn a_flow_without_a_name_is_refused() {
    let (account, _happenings) = account();
    let error = account.call(call("1", flow(""))).await.unwrap_err();
    assert_eq!((error.status(), error.class()), (Some(400), Class::Final));
}

/// API-10: where others use the database too, a real contact's reply is not swallowed; it waits for a key.
#[tokio::test]
async fn a_real_contact_is_not_reached_through_the_account() {
    let (account, mut happenings) = DevelopmentAccount::new(names(), Residents::OwnContacts);
    let error = account.call(call("7301144", tag("tagged"))).await.unwrap_err();
    assert_eq!((&error, error.class()), (&ManyChatError::NoToken, Class::Retryable));
    assert!(happenings.try_recv().is_err(), "and it is not shown");
    assert_eq!(account.call(call("playground-1", tag("tagged"))).await, Ok(Answer::Accepted));
}
