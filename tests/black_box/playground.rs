//! Who reaches the playground, what it says, and the development account of ManyChat behind it (DEC-16).

use std::net::UdpSocket;

use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::app::{
    Answer, Folder, LOST, PATIENCE, SECRET, Setup, TestApp, command, environment, free_port, write_tenant,
};

const PATHS: [&str; 5] = [
    "/playground",
    "/playground/app.js",
    "/playground/lines.js",
    "/playground/style.css",
    "/playground/events",
];

async fn app() -> TestApp {
    Setup::default()
        .env("PLAYGROUND", "true")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MANYCHAT_REPLY_GAP_MS", "0")
        .start()
        .await
}

/// The key of the address that is printed at the start (DEC-16).
pub fn key() -> String {
    let digest = Sha256::digest(format!("playground\0{SECRET}"));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What a browser shows once it has opened that address.
fn cookie() -> String {
    format!("playground_{}={}", &key()[..8], key())
}

async fn get(app: &TestApp, path: &str) -> Answer {
    app.ask(Method::GET, path, |request| request.header("Cookie", cookie())).await
}

async fn post(app: &TestApp, path: &str, body: Value) -> Answer {
    app.ask(Method::POST, path, |request| request.header("Cookie", cookie()).json(&body)).await
}

/// What the stream of a page says until it holds these texts; all of it.
async fn stream_until(app: &TestApp, wanted: &[&str]) -> String {
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap();
    let address = format!("http://127.0.0.1:{}/playground/events", app.port);
    let mut response = client.get(address).header("Cookie", cookie()).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut seen = String::new();
    let reading = async {
        while !wanted.iter().all(|text| seen.contains(text)) {
            seen.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    assert!(ended.is_ok(), "{wanted:?} never came: {seen}");
    seen
}

/// DEC-16: refused in production, by the service and by `agent dev`, which then writes nothing.
#[test]
fn the_playground_is_refused_in_production() {
    let folder = Folder::new();
    write_tenant(&folder.path.join("config"), None);
    let mut env = environment(free_port(), "postgres://app@127.0.0.1:1/none", &folder.path);
    env.insert("NODE_ENV".to_owned(), "production".to_owned());
    env.insert("PLAYGROUND".to_owned(), "true".to_owned());
    let serve = command(&folder.path, &env, &["serve"]);
    assert_eq!(serve.code, Some(1));
    assert!(
        serve.stderr.contains("PLAYGROUND: is for development and is refused in production"),
        "{}",
        serve.stderr
    );
    let empty = Folder::new();
    env.remove("PLAYGROUND");
    let dev = command(&empty.path, &env, &["dev"]);
    assert_eq!(dev.code, Some(1));
    assert!(
        dev.stderr.contains("NODE_ENV is production") && dev.stderr.contains("agent serve"),
        "{}",
        dev.stderr
    );
    assert_eq!(std::fs::read_dir(&empty.path).unwrap().count(), 0);
}

/// DEC-16, API-10: a plain `agent serve` has no playground and no account.
#[tokio::test]
async fn without_it_there_is_nothing_there() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", "3000")
        .start()
        .await;
    for path in PATHS {
        assert_eq!(app.get(path).await.unwrap().status, 404, "{path}");
    }
    app.send("how much is it?").await;
    let failed = app.await_rows("select last_error from outbox where last_error is not null").await;
    assert!(
        failed[0]["last_error"].as_str().unwrap().contains("MANYCHAT_API_TOKEN is not set"),
        "{failed:?}"
    );
}

/// DEC-16: no script and no style from elsewhere, no frame, nothing kept.
#[tokio::test]
async fn the_page_comes_with_strict_headers() {
    let app = app().await;
    for path in &PATHS[..4] {
        let answer = get(&app, path).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-frame-options"], "DENY");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin");
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
    let health = app.get("/ready").await.unwrap();
    assert!(health.headers.get("content-security-policy").is_none(), "the rest is as it was");
}

/// DEC-16: another machine, a tunnel, a foreign host name and another site get nothing and change nothing.
#[tokio::test]
async fn nobody_else_reaches_it() {
    let app = app().await;
    let elsewhere = app.get("/no/such/path").await.unwrap().body;
    for path in PATHS {
        let forwarded = app.ask(Method::GET, path, |ask| ask.header("X-Forwarded-For", "127.0.0.1")).await;
        assert_eq!((forwarded.status, &forwarded.body), (404, &elsewhere), "{path} through a tunnel");
        let foreign = app.ask(Method::GET, path, |ask| ask.header("Host", "attacker.example:3000")).await;
        assert_eq!(foreign.status, 403, "{path} under a foreign name");
        if let Some(address) = own_address() {
            let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap();
            let asked =
                client.get(format!("http://{address}:{}{path}", app.port)).header("Host", "localhost");
            assert_eq!(asked.send().await.unwrap().status(), 404, "{path} from {address}");
        }
    }
    let contact = json!({ "channel": "whatsapp" });
    for (name, value) in [
        ("Origin", "https://attacker.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Host", "attacker.example"),
    ] {
        let posted = app
            .ask(Method::POST, "/playground/contacts", |ask| {
                ask.header("Cookie", cookie()).header(name, value).json(&contact)
            })
            .await;
        assert_eq!(posted.status, 403, "{name}: {value}");
    }
    let form = app
        .ask(Method::POST, "/playground/contacts", |ask| {
            ask.header("Cookie", cookie()).header("Content-Type", "text/plain").body(contact.to_string())
        })
        .await;
    assert_eq!(form.status, 400, "what a form of another site could send");
    let seen = stream_until(&app, &["\n\n"]).await + &stream_until(&app, &["\"order\""]).await;
    assert!(seen.contains("\"order\":[]"), "nobody made a contact: {seen}");
    let own = app
        .ask(Method::POST, "/playground/contacts", |ask| {
            let origin = format!("http://127.0.0.1:{}", app.port);
            ask.header("Cookie", cookie()).header("Origin", origin).json(&contact)
        })
        .await;
    assert_eq!(own.status, 201);
}

/// DEC-16: a proxy or tunnel on this machine that shows itself by no header passes on what a stranger sends; without the
/// key of the printed address the stranger sees that there is a page, reads no chat and writes nothing.
#[tokio::test]
async fn nobody_gets_in_without_the_key_of_the_printed_address() {
    let app = app().await;
    let contact = json!({ "channel": "whatsapp" });
    let wrong = format!("playground_{}={}", &key()[..8], key().replace(|letter: char| letter != 'a', "a"));
    for shown in ["", "a=b", &wrong] {
        let ask = async |method: Method, path: &str| {
            app.ask(method, path, |ask| ask.header("Cookie", shown).json(&contact)).await
        };
        assert_eq!(ask(Method::GET, "/playground/events").await.status, 403, "{shown}");
        for path in ["contacts", "messages", "switches", "app.js"] {
            assert_eq!(ask(Method::POST, &format!("/playground/{path}")).await.status, 403, "{path}");
        }
        for address in ["/playground", "/playground?key=", "/playground?key=00", "/playground?other=1"] {
            let page = ask(Method::GET, address).await;
            assert!(page.status == 200 && page.body.contains("id=\"locked\""), "{address}: {}", page.status);
            assert!(page.headers.get("set-cookie").is_none(), "{address}");
        }
    }
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy();
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let address = format!("http://127.0.0.1:{}/playground?key={}", app.port, key());
    let opened = client.get(address).send().await.unwrap();
    assert_eq!(
        (opened.status().as_u16(), &opened.headers()["location"]),
        (303, &"/playground".parse().unwrap())
    );
    let set = opened.headers()["set-cookie"].to_str().unwrap();
    assert_eq!(set, format!("{}; Path=/playground; HttpOnly; SameSite=Lax", cookie()));
    assert!(get(&app, "/playground").await.body.contains("id=\"chat\""));
    assert_eq!(post(&app, "/playground/contacts", contact).await.status, 201);
    let log: String = app.output().lines().filter(|line| line.starts_with('{')).collect();
    assert!(!log.contains(&key()), "the key is in no line of the log");
}

/// ARC-44: the page's own work holds nothing that beats: after a stop the process is off the list. A machine that stands
/// still for a second delays a beat by itself, but not three times.
#[tokio::test]
async fn a_stop_takes_the_process_off_the_list() {
    let mut told = String::new();
    for _ in 0..3 {
        let mut app = Setup::default().env("PLAYGROUND", "true").env("PROCESS_BEAT_MS", "50").start().await;
        assert_eq!(app.rows("select 1 from rs_processes").await.len(), 1);
        assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
        if app.rows("select 1 from rs_processes").await.is_empty() && app.logs("heartbeat failed").is_empty()
        {
            return;
        }
        told = app.output();
    }
    panic!("{told}");
}

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: connecting a datagram socket only chooses the address.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// DEC-16: a message takes the way of a real one; its reply comes over the stream, and the secret over nothing.
#[tokio::test]
async fn a_message_takes_the_real_way_and_the_secret_stays_here() {
    let app = app().await;
    let contact = post(&app, "/playground/contacts", json!({ "channel": "telegram" })).await.json();
    let id = contact["id"].as_str().unwrap().to_owned();
    let said = post(&app, "/playground/messages", json!({ "contact": id, "text": "how much is it?" })).await;
    assert_eq!(said.status, 202, "{}", said.body);
    let mut seen = stream_until(&app, &["answered_inline", "$450.00", "\"kind\":\"reply\""]).await;
    let turns = app.rows("select t.text, c.subscriber_id, c.channel from turns t join conversations c on c.id = t.conversation_id where role = 'user'").await;
    assert_eq!(turns, [json!({ "text": "how much is it?", "subscriber_id": id, "channel": "telegram" })]);
    let unknown = post(&app, "/playground/messages", json!({ "contact": "stranger", "text": "hi" })).await;
    assert_eq!(unknown.status, 404);
    for path in &PATHS[..4] {
        seen.push_str(&get(&app, path).await.body);
    }
    seen.push_str(&said.body);
    assert!(!seen.contains(SECRET) && !seen.contains("Bearer"), "the secret is in something a browser gets");
    assert!(!app.output().contains("how much is it?") && !app.output().contains(&id), "{}", app.output());
}

/// DEC-16, ARC-3: every kind of failure of the account goes through the same actor, outbox and retries as ManyChat's.
#[tokio::test]
async fn a_refusing_account_ends_in_a_dead_letter() {
    let app = app().await;
    let contact = post(&app, "/playground/contacts", json!({ "channel": "whatsapp" })).await.json();
    let switched = json!({ "model": "slow", "manychat": "refused" });
    assert_eq!(post(&app, "/playground/switches", switched).await.status, 200);
    post(&app, "/playground/messages", json!({ "contact": contact["id"], "text": "how much is it?" })).await;
    let rows = app.await_rows("select last_error from outbox where status = 'failed'").await;
    assert!(rows[0]["last_error"].as_str().unwrap().contains("told to refuse"), "{rows:?}");
    stream_until(&app, &["\"given_up\":1", "call_failed"]).await;
    assert_eq!(post(&app, "/playground/switches", json!({ "manychat": "no such" })).await.status, 400);
}

/// API-10, DEC-16: in a database that is not the process's own, the reply of a real contact waits for a key.
#[tokio::test]
async fn a_real_contacts_reply_is_not_swallowed() {
    let app = app().await;
    post(&app, "/playground/switches", json!({ "model": "slow" })).await;
    app.send("how much is it?").await;
    let failed = app.await_rows("select status, last_error from outbox where last_error is not null").await;
    assert!(
        failed[0]["last_error"].as_str().unwrap().contains("MANYCHAT_API_TOKEN is not set"),
        "{failed:?}"
    );
}

/// DEC-16: with a key the real account is used, and there is nothing to switch.
#[tokio::test]
async fn with_a_key_the_real_account_is_used() {
    let app = Setup::default()
        .env("PLAYGROUND", "true")
        .env("MANYCHAT_API_TOKEN", "key-of-the-real-account")
        .env("MANYCHAT_API_BASE", "http://127.0.0.1:9")
        .start()
        .await;
    let seen = stream_until(&app, &["switches"]).await;
    assert!(seen.contains("\"manychat\":null") && seen.contains("\"model\":\"normal\""), "{seen}");
    assert_eq!(post(&app, "/playground/switches", json!({ "manychat": "slow" })).await.status, 409);
}
