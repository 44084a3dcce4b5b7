use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn context(channel: ChannelName) -> BlockContext<'static> {
    BlockContext {
        channel,
        public_base_url: "https://agent.example.org",
        presented_secret: "presented-secret-0123456789",
        token_field: "ai_token",
        offering_field: None,
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn rendered(parts: &[&str], context: &BlockContext<'_>) -> Value {
    serde_json::from_slice(&render(&texts(parts), context).unwrap()).unwrap()
}

/// OUT-1, OUT-2, OUT-3, OUT-6, AUTH-6, DEC-3: the documented response, key for key.
#[test]
fn the_block_is_the_documented_one() {
    let block =
        rendered(&["Yes, Tuesdays at seven.", "Shall I save you a place?"], &context(ChannelName::Whatsapp));
    let expected = json!({
        "version": "v2",
        "content": {
            "type": "whatsapp",
            "messages": [{"type": "text", "text": "Yes, Tuesdays at seven.\n\nShall I save you a place?"}],
            "external_message_callback": {
                "url": "https://agent.example.org/v1/channels/manychat/message",
                "method": "post",
                "headers": {"Authorization": "Bearer presented-secret-0123456789"},
                "payload": {
                    "text": "{{last_input_text}}",
                    "subscriber_id": "{{contact.id}}",
                    "ai_token": "{{ai_token}}"
                },
                "timeout": 86400
            }
        }
    });
    assert_eq!(block, expected);
}

/// OUT-3, OUT-4, GAP-CH-12
#[test]
fn placeholders_name_the_configured_fields() {
    let context = BlockContext {
        token_field: "crm_tok",
        offering_field: Some("crm_offering"),
        public_base_url: "https://agent.example.org/",
        ..context(ChannelName::Whatsapp)
    };
    let callback = &rendered(&["Hi"], &context)["content"]["external_message_callback"];
    assert_eq!(callback["payload"]["ai_token"], "{{crm_tok}}");
    assert_eq!(callback["payload"]["offering"], "{{crm_offering}}");
    assert_eq!(callback["url"], "https://agent.example.org/v1/channels/manychat/message");
}

/// DEC-3, OUT-6, 05/CAP-2
#[test]
fn only_messenger_leaves_the_type_out_and_nobody_gets_quick_replies() {
    for channel in ChannelName::ALL {
        let content = &rendered(&["Hi"], &context(*channel))["content"];
        let expected = (*channel != ChannelName::Messenger).then(|| json!(channel.as_str()));
        assert_eq!(content.get("type"), expected.as_ref(), "{channel}");
        assert!(content.get("quick_replies").is_none() && content.get("actions").is_none());
    }
}

/// OUT-8
#[test]
fn no_text_is_a_silent_response_with_the_callback() {
    let block = rendered(&[], &context(ChannelName::Whatsapp));
    assert_eq!(block["content"]["messages"], json!([]));
    assert_eq!(block["content"]["external_message_callback"]["timeout"], 86400);
}

/// CHC-3, AC-CH-9, AC-CH-10
#[test]
fn overflow_is_folded_into_the_last_text() {
    let twelve: Vec<String> = (1..=12).map(|number| number.to_string()).collect();
    let folded = fold(&twelve, 10);
    assert_eq!(folded.len(), 10);
    assert_eq!(folded[..9], twelve[..9]);
    assert_eq!(folded[9], "10\n\n11\n\n12");
    assert_eq!(fold(&twelve[..10], 10), twelve[..10]);
    assert_eq!(fold(&texts(&["a", "b"]), 1), ["a\n\nb"]);
    assert_eq!(fold(&texts(&["a", "b"]), 0), ["a\n\nb"]);
    assert_eq!(fold(&[], 1), Vec::<String>::new());
    let block = rendered(&["a"; 12], &context(ChannelName::Telegram));
    assert_eq!(block["content"]["messages"].as_array().unwrap().len(), 10);
}

/// CHC-5, CHC-4: the renderer neither cuts nor splits; how long a reply may be is judged before it.
#[test]
fn a_long_text_stays_whole() {
    let long = "word ".repeat(4000) + "end";
    let block = rendered(&[&long, "b"], &context(ChannelName::Whatsapp));
    assert_eq!(block["content"]["messages"], json!([{"type": "text", "text": format!("{long}\n\nb")}]));
}

/// OUT-7, ERR-5
#[test]
fn a_block_that_breaks_the_schema_is_not_sent() {
    let whatsapp = context(ChannelName::Whatsapp);
    assert_eq!(render(&texts(&["a", ""]), &whatsapp), Err(RenderError::EmptyText(1)));
    let plain_http = BlockContext { public_base_url: "http://agent.example.org", ..whatsapp };
    assert_eq!(
        render(&texts(&["a"]), &plain_http),
        Err(RenderError::NotHttps("content.external_message_callback.url"))
    );
}

fn block(channel: ChannelName, change: impl FnOnce(&mut DynamicBlock)) -> Result<(), RenderError> {
    let mut block: DynamicBlock =
        serde_json::from_slice(&render(&texts(&["Hi"]), &context(channel)).unwrap()).unwrap();
    change(&mut block);
    validate(&block, &profile(channel).capabilities)
}

/// CHC-6, CHC-7: every limit of the platform and of the channel is checked.
#[test]
fn a_block_at_each_limit_passes_and_one_beyond_is_refused() {
    let flow = || Button::Flow { caption: "Go".to_owned(), target: "flow".to_owned() };
    let reply = || QuickReply::Node { caption: "Yes".to_owned(), target: "node".to_owned() };
    let tag = || Action::AddTag { tag_name: "vip".to_owned() };
    let text = |buttons| Message::Text { text: "Hi".to_owned(), buttons };
    let too_many = |what, count, most| Err(RenderError::TooMany { what, count, most });
    let with = |channel, message: Message| block(channel, |block| block.content.messages = vec![message]);

    assert_eq!(with(ChannelName::Whatsapp, text(Some(vec![flow(); 3]))), Ok(()));
    assert_eq!(with(ChannelName::Whatsapp, text(Some(vec![flow(); 4]))), too_many("messages.buttons", 4, 3));
    assert_eq!(with(ChannelName::Telegram, text(Some(vec![flow(); 10]))), Ok(()));
    assert_eq!(
        with(ChannelName::Whatsapp, Message::File { url: "http://a.example/f".to_owned() }),
        Err(RenderError::NotHttps("content.messages.url"))
    );
    let bad_button = Button::Url { caption: "Open".to_owned(), url: "ftp://a.example".to_owned() };
    assert_eq!(
        with(ChannelName::Whatsapp, text(Some(vec![bad_button]))),
        Err(RenderError::NotHttps("content.messages.buttons.url"))
    );
    let messages =
        |count| block(ChannelName::Telegram, |block| block.content.messages = vec![text(None); count]);
    assert_eq!((messages(10), messages(11)), (Ok(()), too_many("messages", 11, 10)));
    let actions =
        |count| block(ChannelName::Whatsapp, |block| block.content.actions = Some(vec![tag(); count]));
    assert_eq!((actions(5), actions(6)), (Ok(()), too_many("actions", 6, 5)));
    let replies =
        |channel, count| block(channel, |block| block.content.quick_replies = Some(vec![reply(); count]));
    assert_eq!(replies(ChannelName::Whatsapp, 0), Err(RenderError::QuickReplies));
    assert_eq!(replies(ChannelName::Instagram, 11), Ok(()));
    assert_eq!(replies(ChannelName::Instagram, 12), too_many("quick_replies", 12, 11));
    for (timeout, expected) in
        [(0, Err(RenderError::Timeout)), (86_401, Err(RenderError::Timeout)), (1, Ok(()))]
    {
        let checked = block(ChannelName::Whatsapp, |block| {
            block.content.external_message_callback.as_mut().unwrap().timeout = timeout;
        });
        assert_eq!(checked, expected);
    }
    assert_eq!(
        block(ChannelName::Whatsapp, |block| block.version = "v1".to_owned()),
        Err(RenderError::Version)
    );
}

/// CHC-7: the wire names of kinds that the agent never sends.
#[test]
fn wire_names_are_manychats() {
    let action = Action::SetFieldValue { field_name: "age".to_owned(), value: FieldValue::Number(4.into()) };
    assert_eq!(
        serde_json::to_value(action).unwrap(),
        json!({"action": "set_field_value", "field_name": "age", "value": 4})
    );
    let call = Button::Call { caption: "Ring".to_owned(), phone: "1".to_owned() };
    assert_eq!(serde_json::to_value(call).unwrap(), json!({"type": "call", "caption": "Ring", "phone": "1"}));
}

/// AUTH-6, HTTP-31: the credential does not reach a log through `Debug`.
#[test]
fn debug_shows_no_secret() {
    let block: DynamicBlock =
        serde_json::from_slice(&render(&texts(&["Hi"]), &context(ChannelName::Whatsapp)).unwrap()).unwrap();
    assert!(!format!("{block:?}").contains("presented-secret"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// ARC-62, CHC-3: whatever the texts and the channel, all of them arrive, in order, in at most as many
    /// messages as the channel delivers.
    #[test]
    fn nothing_is_dropped(parts in proptest::collection::vec("\\PC{1,30}", 0..15), pick in 0_usize..4) {
        let channel = ChannelName::ALL[pick];
        let block: DynamicBlock = serde_json::from_slice(&render(&parts, &context(channel)).unwrap()).unwrap();
        let sent: Vec<String> = block.content.messages.iter().map(|message| match message {
            Message::Text { text, .. } => text.clone(),
            other => panic!("the agent sends only text, not {other:?}"),
        }).collect();
        prop_assert!(sent.len() <= profile(channel).capabilities.messages);
        prop_assert_eq!(sent.join("\n\n"), parts.join("\n\n"));
    }
}
