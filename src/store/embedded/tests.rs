mod binaries;
mod killed;
mod support;
mod tls;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::account::RunAs;
use super::testing::TestServer;
use super::*;
use support::{TempDir, connect, value};

/// Fast, on a directory of the test.
fn options(directory: &Path) -> EmbeddedOptions {
    EmbeddedOptions { durable: false, ..EmbeddedOptions::directory(directory) }
}

/// Starts off the runtime's thread, as callers do.
async fn start(options: EmbeddedOptions) -> Result<EmbeddedServer, EmbeddedError> {
    tokio::task::spawn_blocking(move || EmbeddedServer::start(options)).await.unwrap()
}

/// ACC-EMB-1, EMB-1, EMB-4, EMB-5: data stays over restarts; meanwhile a second server on the directory is refused and
/// told who holds it; a start that fails in between holds nothing.
#[tokio::test]
async fn a_directory_keeps_its_data_for_one_server_at_a_time() {
    let home = TempDir::new("kept");
    let directory = home.path().join("data/dev");
    let server = start(options(&directory)).await.unwrap();
    let client = connect(&server.config()).await;
    client.batch_execute("create table notes (text text); insert into notes values ('kept')").await.unwrap();
    drop(client);
    let error = start(options(&directory)).await.unwrap_err().to_string();
    let expected = format!("in use by process {}: stop it, or set DATABASE_URL", std::process::id());
    assert!(error.contains(&expected), "{error}");
    let shared = connect(&running_in(&directory).unwrap()).await;
    assert_eq!(value::<String>(&shared, "select text from notes").await, "kept", "but it can be shared");
    drop(shared);
    server.stop();
    assert!(running_in(&directory).is_none() && running_in(home.path()).is_none());

    let broken = options(&directory).with_setting("no_such_setting", "1");
    let error = start(broken).await.unwrap_err().to_string();
    assert!(error.contains("did not start") && error.contains("no_such_setting"), "{error}");
    assert!(!error.contains('\n'), "one line (CLI-5): {error}");

    let server = start(options(&directory)).await.unwrap();
    let client = connect(&server.config()).await;
    assert_eq!(value::<String>(&client, "select text from notes").await, "kept");
    let version: i32 = value(&client, "select current_setting('server_version_num')::int / 10000").await;
    assert!(
        directory.join(version.to_string()).join("PG_VERSION").is_file(),
        "named after the major version"
    );
}

/// EMB-5: open to its owner only and to no network, whatever the settings say; durable as asked; reached through a
/// connection string with characters that have a meaning in it.
#[tokio::test]
async fn the_server_is_private_to_its_owner_and_off_the_network() {
    let home = TempDir::new("private");
    let directory = home.path().join("a b&c=d#%?é,\"");
    let wanted = EmbeddedOptions::directory(&directory).with_setting("listen_addresses", "*");
    let server = start(wanted).await.unwrap();
    let client = connect(&server.url().parse().unwrap()).await;
    assert_eq!(value::<String>(&client, "show listen_addresses").await, "");
    assert_eq!(value::<String>(&client, "show fsync").await, "on");
    let collation = "select datcollate from pg_database where datname = current_database()";
    assert_eq!(value::<String>(&client, collation).await, "C");
    assert_eq!(value::<String>(&client, "show server_encoding").await, "UTF8");
    assert_eq!(
        value::<String>(&client, "select current_user || ' in ' || current_database()").await,
        "app in agent"
    );
    let cluster = PathBuf::from(value::<String>(&client, "show data_directory").await);
    let lock = directory.join("agent.lock");
    for path in [&directory, &cluster, &server.sockets, &cluster.join("server.log"), &lock] {
        // Another user who runs the server has to pass through the directory, without looking.
        let allowed = if *path == directory { 0o711 } else { 0o700 };
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & !allowed, 0, "{} has mode {mode:o}", path.display());
    }
}

/// The kernel watches the thread that starts the child: it must not be the caller's. Ctrl-C goes to the whole
/// foreground group: the server must not be in it.
#[tokio::test]
async fn the_server_is_detached_from_the_thread_and_the_group_that_started_it() {
    let home = TempDir::new("thread");
    let wanted = options(home.path());
    let server = std::thread::spawn(move || EmbeddedServer::start(wanted)).join().unwrap().unwrap();
    let client = connect(&server.config()).await;
    // A shutdown that the thread's end had caused would cut this statement.
    value::<String>(&client, "select pg_sleep(0.3)::text").await;

    let status = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let group = status.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
    assert_eq!(group, server.pid().to_string());
}

/// A killed server that nobody has reaped yet, and a pid file with the number of a stranger: neither stops a start. A
/// server that somebody runs by hand does, and is left alone.
#[tokio::test]
async fn dead_leftovers_do_not_stop_a_start_but_a_live_server_does() {
    let home = TempDir::new("zombie");
    let base = home.path().to_owned();
    let (mut by_hand, config) = tokio::task::spawn_blocking(move || {
        let programs = ServerBinaries::find(&base).unwrap();
        let (home, run_as) = support::prepared(&programs, &base);
        let mut first = Postmaster::start(&programs, run_as, &home, &[]).unwrap();
        let pid = first.pid();
        support::signal(pid, libc::SIGKILL);
        support::wait_until("a zombie", || support::state_of(pid) == Some('Z'));
        let mut second = Postmaster::start(&programs, run_as, &home, &[]).unwrap();
        assert_eq!(support::state_of(pid), Some('Z'), "still not reaped");
        second.stop();
        first.stop();

        let stranger = format!("{}\n{}\n", std::process::id(), home.cluster.display());
        fs::write(home.cluster.join("postmaster.pid"), stranger).unwrap();
        let third = Postmaster::start(&programs, run_as, &home, &[]).unwrap();
        // Our hold on the directory ends here, the server goes on.
        (third, config_for(&home.sockets, "postgres"))
    })
    .await
    .unwrap();

    let error = start(options(home.path())).await.unwrap_err().to_string();
    assert!(error.contains(&format!("in use by process {}", by_hand.pid())), "{error}");
    connect(&config).await;
    by_hand.stop();
}

/// EMB-1, EMB-4, EMB-5: two at once have each their own, and nothing of them stays.
#[tokio::test]
async fn temporary_servers_are_separate_and_gone_when_they_stop() {
    let (one, other) = tokio::join!(start(EmbeddedOptions::temporary()), start(EmbeddedOptions::temporary()));
    let (one, other) = (one.unwrap(), other.unwrap());
    connect(&one.config()).await.batch_execute("create table mine (id int)").await.unwrap();
    let seen: bool = value(&connect(&other.config()).await, "select to_regclass('mine') is not null").await;
    assert!(!seen);

    let scratch: Vec<_> =
        [&one, &other].iter().map(|server| server.sockets.parent().unwrap().to_owned()).collect();
    let pids = [one.pid(), other.pid()];
    one.stop();
    drop(other);
    for directory in scratch {
        assert!(!directory.exists() && !directory.with_extension("lock").exists(), "{}", directory.display());
    }
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
}

/// A first start of two at the same time: one makes the cluster, the other is refused, nothing is half made.
#[tokio::test]
async fn of_two_first_starts_one_wins() {
    let home = TempDir::new("race");
    let (one, other) = tokio::join!(start(options(home.path())), start(options(home.path())));
    let (won, lost): (Vec<_>, Vec<_>) = [one, other].into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 1));
    assert!(matches!(&lost[0], Err(EmbeddedError::InUse { .. })), "{lost:?}");
    connect(&won[0].as_ref().unwrap().config()).await;
}

/// A socket's address has 107 bytes: a deep directory gets its socket elsewhere, and that goes when the server stops.
#[tokio::test]
async fn a_deep_directory_works() {
    let home = TempDir::new("deep");
    let directory = home.path().join("d".repeat(100)).join("odd, \"name\"");
    let server = start(options(&directory)).await.unwrap();
    let sockets = server.sockets.clone();
    assert!(sockets.as_os_str().len() < 100 && !sockets.starts_with(home.path()), "{}", sockets.display());
    connect(&server.url().parse().unwrap()).await;
    server.stop();
    assert!(!sockets.exists() && !sockets.parent().unwrap().exists());
    assert!(directory.exists());
}

/// As root both ways of running the server, otherwise the one there is; and the owner of the files decides later.
#[tokio::test]
async fn every_way_to_run_as_another_user_works() {
    let nowhere = Path::new("/nonexistent");
    let programs = ServerBinaries::find(nowhere).unwrap();
    let ways = support::usable_ways(&programs);
    assert!(!ways.is_empty());
    for way in ways {
        let base = TempDir::new("way");
        let config = tokio::task::spawn_blocking({
            let (programs, base) = (programs.clone(), base.path().to_owned());
            move || support::run_once(&programs, way, &base)
        });
        config.await.unwrap();
        let cluster = base.path().join(programs.major().to_string());
        let owner = fs::metadata(cluster.join("PG_VERSION")).unwrap().uid();
        assert_eq!(owner, way.owner().map_or_else(sys::user_id, |account| account.uid));
        assert_eq!(RunAs::choose(&programs, &cluster).unwrap(), way, "the owner decides");
        // The whole path again, now that the cluster is there.
        let server = start(options(base.path())).await.unwrap();
        connect(&server.config()).await;
    }
}

/// EMB-2: each test has a database of its own, with the schema and without rows; one that is dropped is gone.
#[tokio::test]
async fn test_databases_are_migrated_and_separate() {
    let (one, other) = (TestServer::database().unwrap(), TestServer::database().unwrap());
    let (here, there) = (one.connect().await.unwrap(), other.connect().await.unwrap());
    here.batch_execute("insert into rs_rate (tenant_id, tat) values ('shop', now())").await.unwrap();
    assert_eq!(value::<i64>(&there, "select count(*) from rs_rate").await, 0);
    assert_eq!(
        value::<String>(&connect(&one.url().parse().unwrap()).await, "select current_database()::text").await,
        one.name()
    );

    let name = one.name().to_owned();
    drop(one);
    // Jobs are done in order: when the next database is there, the first is gone.
    let _next = TestServer::empty_database().unwrap();
    let left: i64 = there
        .query_one("select count(*) from pg_database where datname = $1", &[&name])
        .await
        .unwrap()
        .get(0);
    assert_eq!(left, 0);
}

/// Only the database changes, whatever form the address of a shared server has.
#[test]
fn a_test_database_has_the_address_of_its_server() {
    let cases = [
        (
            "postgresql://app@/agent?host=%2Ftmp%2Fs&port=5432",
            "postgresql://app@/mine?host=%2Ftmp%2Fs&port=5432",
        ),
        ("postgres://user:pass@db.example:5433/app", "postgres://user:pass@db.example:5433/mine"),
        ("postgres://db.example", "postgres://db.example/mine"),
        ("postgres://db.example?connect_timeout=3", "postgres://db.example/mine?connect_timeout=3"),
    ];
    for (server, expected) in cases {
        assert_eq!(testing::with_database(server, "mine"), expected);
    }
}
