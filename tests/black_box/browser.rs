//! The playground in a real browser, as a person uses it (DEC-16).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{LOST, Setup, TestApp};
use crate::devtools::{Browser, Page};

const QUESTION: &str = "How much is the foundation course?";

const REPLIES: &str = "select status from outbox where kind = 'reply'";
/// Pixels that the page is wider than its window.
const OVERFLOW: &str = "Math.max(0, document.documentElement.scrollWidth - window.innerWidth)";

/// Deadlines that a test can wait for: the slow mock answers two seconds after the first.
fn setup() -> Setup {
    Setup::default()
        .env("PLAYGROUND", "true")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "30000")
        .env("MANYCHAT_REPLY_GAP_MS", "0")
}

/// The opening flow's play time would make a reply wait (WAIT-2).
fn quick_flow(tools: &mut Value) {
    tools["flows"][0]["settleSeconds"] = 0.into();
}

fn address(app: &TestApp) -> String {
    format!("http://127.0.0.1:{}/playground?key={}", app.port, crate::playground::key())
}

/// A page with its first contact ready.
fn open<'a>(browser: &'a mut Browser, app: &TestApp) -> Page<'a> {
    let mut page = browser.open(&address(app), 1280, 860);
    page.wait_for("#chat-name", "Contact 1");
    page
}

/// By keyboard alone.
fn say(page: &mut Page<'_>, text: &str) {
    page.value("document.querySelector('#text').focus()");
    page.write(text);
    page.press("Enter");
}

/// Returns when the service has said that it is switched. A banner that appears between looking for the switch and
/// pressing it moves it away from under the mouse: then, like a person, it clicks again.
fn switch(page: &mut Page<'_>, which: &str, position: &str) {
    let taken = format!("document.querySelector('#{which}-hint').dataset.position === '{position}'");
    for _ in 0..5 {
        page.click(&format!("input[name={which}][value={position}] + span"));
        if page.becomes(&taken, Duration::from_secs(5)) {
            return;
        }
    }
    page.wait(&taken);
}

/// Where each text stands in the chat; -1 when it does not.
fn places(page: &mut Page<'_>, texts: &[&str]) -> Vec<i64> {
    let shown = page.text("#chat");
    texts.iter().map(|text| shown.find(text).map_or(-1, |place| i64::try_from(place).unwrap())).collect()
}

/// DEC-16, RACE-4: a reply in time is in the response; the panel says so; the page breaks none of its own rules.
#[tokio::test]
async fn a_quick_reply_comes_in_the_response() {
    let Some(mut browser) = Browser::launch() else { return };
    let app = setup().start().await;
    let mut page = open(&mut browser, &app);
    say(&mut page, QUESTION);
    page.wait_for(".theirs .bubble", "$450.00");
    page.wait_for(".theirs .meta", "in the response");
    page.wait_for("#race", "In time");
    page.wait_for("#turn-rows", "answered_inline");
    assert_eq!(page.value("document.querySelector('#text').value"), "");
    say(&mut page, "I want to talk to a person");
    page.wait_for("#chat-handoff", "nobody is notified: rules.handoff is not set (explicit request)");
    page.wait_for("#race", "Handed over");
    page.resize(390, 760);
    assert_eq!(
        page.value("document.documentElement.scrollWidth"),
        390,
        "nothing sticks out of a narrow window"
    );
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// DEC-16, RACE-5, RACE-6: the holding line first, then the reply through the account, in this order.
#[tokio::test]
async fn a_slow_model_shows_the_holding_line_and_then_the_reply() {
    let Some(mut browser) = Browser::launch() else { return };
    let app = setup().start().await;
    let holding = app.copy("acknowledgement");
    let mut page = open(&mut browser, &app);
    switch(&mut page, "model", "slow");
    page.watch("#chat");
    say(&mut page, QUESTION);
    page.wait_for(".theirs .bubble", &holding);
    page.wait_for(".chip", "holding line");
    page.wait_for(".theirs .bubble", "$450.00");
    assert!(page.has_shown(&holding, "$450.00"), "the holding line stood there without the reply");
    page.wait_for(".theirs .meta", "through ManyChat");
    page.wait_for("#race", "Late");
    let order = places(&mut page, &[QUESTION, &holding, "$450.00", "24 hours"]);
    assert!(order.is_sorted() && order[0] >= 0, "{order:?}: {}", page.text("#chat"));
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// DEC-16, DEC-31: while ManyChat fails the reply waits where one can see it, and arrives when it has recovered.
#[tokio::test]
async fn a_reply_waits_for_a_failing_manychat_and_arrives() {
    let Some(mut browser) = Browser::launch() else { return };
    let app = setup().start().await;
    let mut page = open(&mut browser, &app);
    switch(&mut page, "model", "slow");
    switch(&mut page, "manychat", "server_error");
    say(&mut page, QUESTION);
    page.wait("/1 reply in the outbox · attempt [1-9][0-9]* · next try/.test(document.querySelector('#queue').textContent)");
    page.wait_for("#queue", "ManyChat refused /fb/subscriber/setCustomFieldByName with 500");
    page.wait_for("#turn-rows", "1 waiting");
    page.wait_for(".event.bad", "ManyChat call failed");
    let waiting = app.rows(REPLIES).await;
    assert!(["pending", "delivering"].contains(&waiting[0]["status"].as_str().unwrap()), "{waiting:?}");
    assert_eq!(places(&mut page, &["$450.00"]), [-1]);
    switch(&mut page, "manychat", "none");
    page.wait_for(".theirs .bubble", "$450.00");
    page.wait("document.querySelector('#queue').hidden");
    assert_eq!(app.await_rows(REPLIES).await[0]["status"], "delivered");
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// DEC-16: whatever a text holds, it is text: a contact's, a reply's, one that came later.
#[tokio::test]
async fn markup_in_texts_stays_text() {
    const MARKUP: &str = "<img src=x onerror=\"window.broken=1\"><script>window.broken=1</script>&amp;</p>";
    let Some(mut browser) = Browser::launch() else { return };
    let rules = |rules: &mut Value| {
        for key in ["escalation", "acknowledgement"] {
            rules["messages"][key] = format!("{key} {MARKUP}").into();
        }
    };
    let app = setup().rules(rules).start().await;
    let mut page = open(&mut browser, &app);
    say(&mut page, MARKUP);
    page.wait_for(".mine .bubble", MARKUP);
    switch(&mut page, "model", "failing");
    say(&mut page, QUESTION);
    page.wait_for(".theirs .bubble", &format!("escalation {MARKUP}"));
    switch(&mut page, "model", "slow");
    say(&mut page, "When does it run?");
    page.wait_for(".theirs .bubble", &format!("acknowledgement {MARKUP}"));
    page.wait_for(".theirs .meta", "through ManyChat");
    let made = "document.querySelectorAll('#chat img, #chat script, #contacts img, #contacts script').length";
    assert_eq!(page.value(made), 0);
    assert_eq!(page.value("typeof window.broken"), "undefined");
}

/// DEC-16: no silent failure: a refused message says why, a lost stream shows a banner, and both end.
#[tokio::test]
async fn errors_and_a_lost_stream_are_shown() {
    let Some(mut browser) = Browser::launch() else { return };
    let mut app = setup().start().await;
    let mut page = open(&mut browser, &app);
    assert_eq!(page.value("document.querySelector('#lost').hidden"), true);
    say(&mut page, &"x".repeat(4097));
    page.wait_for(".event.bad", "body/text is longer than 4096 characters");
    page.wait_for(".mine .meta", "not taken");
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0), "an open page holds no stop up");
    page.wait("!document.querySelector('#lost').hidden");
    page.wait_for("#link-text", "Connection lost");
    say(&mut page, QUESTION);
    page.wait_for("#failure", "The service cannot be reached");
    assert_eq!(page.value("document.querySelector('#text').value"), QUESTION, "the words are kept");
    app.launch().await;
    page.wait("document.querySelector('#lost').hidden");
    page.wait_for("#chat-name", "Contact 1");
    page.press("Enter");
    page.wait_for(".theirs .bubble", "$450.00");
    assert_eq!(page.value("document.querySelector('#failure').hidden"), true);
    // DEC-16: another secret ends the key of an open page, which says so.
    app.stop(libc::SIGTERM).await;
    app.env.insert("MANYCHAT_SHARED_SECRET".to_owned(), "a-secret-after-the-rotation".to_owned());
    app.launch().await;
    page.wait_for("#lost", "open the playground with the address");
}

/// DEC-16: several contacts, each with a history of its own; everything can be reached with the keyboard and has a name.
#[tokio::test]
async fn contacts_are_kept_apart_and_the_keyboard_reaches_everything() {
    let Some(mut browser) = Browser::launch() else { return };
    let app = setup().start().await;
    let mut page = open(&mut browser, &app);
    say(&mut page, QUESTION);
    page.wait_for(".theirs .bubble", "$450.00");
    page.value("document.querySelector('#channel').value = 'telegram'");
    page.click("#new-contact button");
    page.wait_for("#chat-name", "Contact 2");
    page.wait_for("#chat-sub", "Telegram");
    assert_eq!(places(&mut page, &["$450.00"]), [-1], "the second contact sees nothing of the first");
    page.click("#contacts li:first-child button");
    page.wait_for("#chat-name", "Contact 1");
    page.wait_for(".theirs .bubble", "$450.00");
    let conversations = app.rows("select channel from conversations").await;
    assert_eq!(conversations, [json!({ "channel": "whatsapp" })], "who has not written has none");
    let unnamed = "[...document.querySelectorAll('button, input, select, textarea')].filter(control => \
                   !control.textContent.trim() && control.labels?.length === 0).length";
    assert_eq!(page.value(unnamed), 0, "controls without a label");
    page.value("document.querySelector('input[name=model]:checked').focus()");
    page.press("ArrowRight");
    page.wait_for("#model-hint", "Loses the race");
    page.press("Tab");
    assert_eq!(page.value("document.activeElement.name"), "manychat");
}

/// DEC-16, FLOW-1, HIST-1: a tenant with tools, the mock and no account: the flow stands before its reply, fields come after
/// it, and the record tells what became of each. Without tools the page says how to get some.
#[tokio::test]
async fn what_the_agent_does_is_shown_as_it_happens() {
    let Some(mut browser) = Browser::launch() else { return };
    let app = setup().tools(quick_flow).start().await;
    let mut page = open(&mut browser, &app);
    page.wait_for("#ideas", "something to read");
    say(&mut page, "Have you something to read about the foundation course?");
    page.wait_for(".theirs .bubble", "sending you the brochure");
    page.wait_for(".event.flow", "Foundation Course leaflet");
    page.wait_for(".event", "Field written: intent = prospect");
    page.wait_for(".event", "Field written: course = foundation");
    let order = places(&mut page, &["something to read", "foundation_brochure", "sending you the brochure"]);
    assert!(order.is_sorted() && order[0] >= 0, "{order:?}: {}", page.text("#chat"));
    for action in [
        "set fieldintent = prospectperformed",
        "set fieldcourse = foundationperformed",
        "send flowfoundation_brochureperformed",
    ] {
        page.wait_for("#actions li", action);
    }
    page.wait_for("#fields", "prospect");
    assert_eq!(page.value("document.querySelector('#actions-hint').hidden"), true);
    switch(&mut page, "manychat", "refused");
    say(&mut page, "How do I pay?");
    page.wait_for("#actions li", "send flowenrolment_linkfailed");
    page.wait_for(".event.bad", "ManyChat call failed");
    page.wait_for(".theirs .bubble", "passing");
    page.resize(1280, 1250);
    assert_eq!(page.value(OVERFLOW), 0);
    if let Some(folder) = std::env::var_os("SCREENSHOTS") {
        page.screenshot(&PathBuf::from(folder).join("tools.png"));
    }
    page.resize(390, 900);
    assert_eq!(page.value(OVERFLOW), 0, "nothing sticks out of a narrow window");
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
}

/// DEMO-2, DEC-16: without tools the page says so, and how to get some.
#[tokio::test]
async fn a_tenant_without_tools_is_told_how_to_get_some() {
    let Some(mut browser) = Browser::launch() else { return };
    let app = setup().start().await;
    let mut page = open(&mut browser, &app);
    page.wait_for("#actions-hint", "agent bootstrap --tools");
    assert_eq!(
        page.value("document.querySelector('#ideas').textContent.includes('something to read')"),
        false
    );
}

/// DEC-16: the page fits a laptop, a tablet, a telephone and a dark screen, in the state that the README shows. With
/// `SCREENSHOTS=<folder>` the pictures are kept there; the README's is docs/assets/playground.png.
#[tokio::test]
async fn the_page_fits_every_screen() {
    let Some(mut browser) = Browser::launch() else { return };
    let kept = std::env::var_os("SCREENSHOTS").map(PathBuf::from);
    let keep = |page: &mut Page<'_>, name: &str| {
        assert_eq!(page.value(OVERFLOW), 0, "{name}: wider than its window");
        if let Some(folder) = &kept {
            page.screenshot(&folder.join(name));
        }
    };
    let app = setup()
        .tools(quick_flow)
        .env("TENANT_ID", "demo")
        .env("RACE_DEADLINE_MS", if std::env::var_os("SCREENSHOTS").is_some() { "8000" } else { LOST })
        .start()
        .await;
    let mut page = open(&mut browser, &app);
    page.click("#new-contact button");
    page.wait_for("#chat-name", "Contact 2");
    say(&mut page, "I want to talk to a person");
    page.wait_for("#chat-handoff", "Handed over; nobody is notified");
    page.click("#contacts li:first-child button");
    say(&mut page, "Have you something to read about the foundation course?");
    page.wait_for(".theirs .bubble", "sending you the brochure");
    page.wait_for("#actions li", "send flowfoundation_brochureperformed");
    switch(&mut page, "model", "slow");
    say(&mut page, QUESTION);
    page.wait_for(".theirs .bubble", "$450.00");
    page.wait_for("#race", "Late");
    page.wait("!document.querySelector('.typing')");
    page.value("document.activeElement.blur()");
    for (name, width, height) in
        [("playground.png", 1280, 1290), ("medium.png", 900, 1000), ("narrow.png", 390, 1500)]
    {
        page.resize(width, height);
        keep(&mut page, name);
    }
    page.resize(1280, 860);
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    page.call("Emulation.setEmulatedMedia", dark);
    switch(&mut page, "manychat", "server_error");
    say(&mut page, "Is there a certificate?");
    page.wait_for("#queue", "next try");
    keep(&mut page, "dark.png");
}
