//! Databases that cannot be used: every command that needs one says in one line which variable to correct and how.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use manychat_agent::store::embedded::testing::TestServer;

use crate::app::{Folder, command, free_port, tenant_folder};

const PASSWORD: &str = "hidden-password-77";
/// What a server's own words can name.
const WORDS: &str = "user \"planted_user\" at planted.host.example";

/// Runs the three commands that open the database and checks the line each of them ends with.
fn assert_refused(url: &str, expected: &str) {
    let (folder, env) = tenant_folder(url, None);
    for words in [vec!["serve"], vec!["worker"], vec!["tokens", "backfill", "--check"]] {
        let ended = command(&folder.path, &env, &words);
        let said = &ended.stderr;
        assert_eq!((ended.code, said.lines().count()), (Some(1), 1), "{words:?}: {said}");
        assert!(said.contains("DATABASE_URL") && said.contains(expected), "{words:?}: {said}");
        for hidden in [PASSWORD, "planted", "127.0.0.1", "panic"] {
            assert!(
                !said.contains(hidden) && !ended.stdout.contains(hidden),
                "{words:?}: {hidden} in {said}"
            );
        }
    }
}

/// A server that refuses every login with this SQLSTATE, and TLS before it.
fn refusing_server(code: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A caller that hangs up is none of this test's business.
            let _ = refuse(stream.unwrap(), code);
        }
    });
    port
}

fn refuse(mut stream: TcpStream, code: &str) -> std::io::Result<()> {
    const TLS_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        if head[4..] == TLS_REQUEST {
            stream.write_all(b"N")?;
            continue;
        }
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        stream.read_exact(&mut vec![0; length - 8])?;
        let fields = format!("SFATAL\0VFATAL\0C{code}\0Mrefused {WORDS}\0\0");
        stream.write_all(b"E")?;
        stream.write_all(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes())?;
        return stream.write_all(fields.as_bytes());
    }
}

/// OPS-6, CLI-5, CLI-25, ENV-26, DB-5: a server that refuses the login.
#[test]
fn a_login_that_is_refused_says_what_to_correct() {
    for (code, expected) in [
        ("28P01", "correct user and password"),
        ("28000", "pg_hba.conf"),
        ("3D000", "no database of that name"),
        ("42501", "grant it CONNECT"),
        ("53300", "max_connections"),
        ("57P03", "try again"),
        ("XX000", "its own log says why"),
    ] {
        let url = format!("postgres://app:{PASSWORD}@127.0.0.1:{}/none", refusing_server(code));
        assert_refused(&url, expected);
    }
}

/// OPS-6, CLI-5, DEC-29, ENV-26: a server that is not there, or that offers no TLS.
#[test]
fn a_server_that_cannot_be_reached_says_what_to_check() {
    let nobody = format!("postgres://app:{PASSWORD}@127.0.0.1:{}/none", free_port());
    assert_refused(&nobody, "nothing listens");
    assert_refused(&format!("postgres://app:{PASSWORD}@planted.invalid/none"), "check the host's name");
    assert_refused(&format!("postgres://app:{PASSWORD}@/none?host=/nowhere"), "nothing listens");
    let plain = refusing_server("28P01");
    assert_refused(
        &format!("postgres://app:{PASSWORD}@127.0.0.1:{plain}/none?sslmode=require"),
        "offers no TLS",
    );
}

/// CLI-5, MIG-4, ENV-26: a database that is not there, and a user who may not create tables in one.
#[tokio::test]
async fn a_database_that_is_missing_or_closed_says_what_to_do() {
    let database = TestServer::empty_database().unwrap();
    let with_password = |url: &str| url.replacen("app@", &format!("app:{PASSWORD}@"), 1);
    let url = with_password(database.url());
    let client = database.connect().await.unwrap();
    let name: String = client.query_one("select current_database()", &[]).await.unwrap().get(0);
    assert_refused(&url.replacen(&name, "no_such_database", 1), "no database of that name");

    let user = format!("reader_{}", std::process::id());
    client.batch_execute(&format!("create role {user} login")).await.unwrap();
    let (folder, env) = tenant_folder(&url.replacen("app:", &format!("{user}:"), 1), None);
    let ended = command(&folder.path, &env, &["serve"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("DATABASE_URL") && ended.stderr.contains("grant create"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains(PASSWORD) && !ended.stderr.contains(&user), "{}", ended.stderr);
    client.batch_execute(&format!("drop role {user}")).await.unwrap();
}

/// CLI-5, ENV-26: a database that has no place for what contacts write, for the service and for an operator.
#[tokio::test]
async fn a_database_that_is_not_utf8_says_what_to_make() {
    let database = TestServer::empty_database().unwrap();
    let client = database.connect().await.unwrap();
    let name: String = client.query_one("select current_database()", &[]).await.unwrap().get(0);
    let other = format!("latin_{}", std::process::id());
    let make =
        format!("create database {other} encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'");
    client.batch_execute(&make).await.unwrap();
    let url = database.url().replacen("app@", &format!("app:{PASSWORD}@"), 1).replacen(&name, &other, 1);
    assert_refused(&url, "the database's encoding is LATIN1");
    assert_refused(&url, "create database … encoding 'UTF8'");
    let (folder, env) = tenant_folder(&url, None);
    for words in [vec!["outbox", "list"], vec!["handoffs", "list"], vec!["retention", "run"]] {
        let ended = command(&folder.path, &env, &words);
        assert!(
            ended.code == Some(1)
                && ended.stderr.starts_with("DATABASE_URL: ")
                && ended.stderr.contains("LATIN1"),
            "{words:?}: {}",
            ended.stderr
        );
    }
    client.batch_execute(&format!("drop database {other} with (force)")).await.unwrap();
}

/// DEC-2: a mistyped directory of the embedded server is named by an operator's commands, and no server is made there.
#[test]
fn an_operator_makes_no_new_server() {
    let place = Folder::new();
    let missing = place.path.join("mistyped");
    for directory in [&missing, &place.path] {
        let (folder, env) = tenant_folder(&format!("embedded:{}", directory.display()), None);
        for words in [
            vec!["outbox", "list"],
            vec!["handoffs", "list"],
            vec!["retention", "run", "--dry-run"],
            vec!["tokens", "backfill", "--check"],
        ] {
            let ended = command(&folder.path, &env, &words);
            let said = &ended.stderr;
            assert!(ended.code == Some(1) && said.starts_with("DATABASE_URL: "), "{words:?}: {said}");
            assert!(said.contains(&directory.display().to_string()), "{words:?}: {said}");
        }
    }
    assert!(!missing.exists());
    assert_eq!(std::fs::read_dir(&place.path).unwrap().count(), 0);
}

/// CLI-4, ENV-1: a folder that was never set up says what to do first; one that was does not.
#[test]
fn an_empty_folder_is_told_where_to_begin() {
    let folder = Folder::new();
    let env = std::collections::BTreeMap::new();
    for words in [vec!["serve"], vec!["worker"], vec!["config", "check"], vec!["tokens", "backfill"]] {
        let ended = command(&folder.path, &env, &words);
        assert_eq!(ended.code, Some(1));
        let said = &ended.stderr;
        assert!(said.starts_with("invalid environment:"), "{said}");
        assert!(said.contains("`agent dev`") && said.contains("`agent bootstrap`"), "{said}");
        assert!(said.lines().last().unwrap().contains(".env.example"), "{said}");
    }
    assert_eq!(command(&folder.path, &env, &["bootstrap"]).code, Some(0));
    let broken = [("AGENT_MODEL".to_owned(), "nope".to_owned())].into();
    let ended = command(&folder.path, &broken, &["serve"]);
    assert!(ended.stderr.contains("AGENT_MODEL") && !ended.stderr.contains("agent dev"), "{}", ended.stderr);
    std::fs::remove_dir_all(folder.path.join("config")).unwrap();
    let ended = command(&folder.path, &env, &["serve"]);
    assert!(
        ended.stderr.contains("prompt.md") && ended.stderr.contains("`agent bootstrap`"),
        "{}",
        ended.stderr
    );
}
