//! The service on databases of different origin.

use manychat_agent::store::embedded::testing::TestServer;

use crate::app::{ABORTED, LOST, Setup};

/// MIG-1, MIG-3, ACC-DB-1, ACC-DB-2, ACC-DB-10: an empty database is migrated at boot, once.
#[tokio::test]
async fn an_empty_database_is_migrated_once() {
    let database = TestServer::empty_database().unwrap();
    let mut app = Setup { database: Some(database), ..Setup::default() }.start().await;
    let applied = app.log_line("migrations applied").await;
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap().count();
    assert_eq!(applied["migrations"].as_array().unwrap().len(), files, "{applied}");
    assert!(app.send("how much is it?").await.texts()[0].contains("$450.00"));
    assert_eq!(app.stop(libc::SIGTERM).await.code(), Some(0));
    app.launch().await;
    assert_eq!(app.logs("migrations applied").len(), 1);
}

/// ACC-DB-3, MIG-6, GAP-DB-1, PROC-1: five processes boot at once on an empty database.
#[tokio::test]
async fn five_processes_boot_at_once() {
    let database = TestServer::empty_database().unwrap();
    let url = database.url().to_owned();
    let mut apps = vec![Setup { database: Some(database), ..Setup::default() }.prepare().await];
    for _ in 0..4 {
        let spare = Some(TestServer::empty_database().unwrap());
        let setup = Setup { database: spare, database_url: Some(url.clone()), ..Setup::default() };
        let app = setup.prepare().await;
        apps.push(app);
    }
    for app in &mut apps {
        app.spawn();
    }
    let mut migrated = 0;
    for app in &mut apps {
        app.log_line(&format!("Server listening at http://0.0.0.0:{}", app.port)).await;
        migrated += app.logs("migrations applied").len();
    }
    assert_eq!(migrated, 1, "processes that migrated");
    let processes = apps[0].rows("select count(distinct id) as alive from rs_processes").await;
    assert_eq!(processes[0]["alive"], 5);
}

/// COMP-7, ACC-DB-8: a column of another branch of the reference does no harm.
#[tokio::test]
async fn an_extra_column_of_the_outbox_keeps_its_default() {
    let app = Setup::default()
        .env("AGENT_MODEL", "mock:slow")
        .env("RACE_DEADLINE_MS", LOST)
        .env("MODEL_ABORT_MS", ABORTED)
        .start()
        .await;
    app.run("alter table outbox add column channel text not null default 'manychat'").await;
    app.send("how much is it?").await;
    let rows = app.await_rows("select channel, status from outbox where kind = 'reply'").await;
    assert_eq!(rows[0]["channel"], "manychat");
}

/// DB-2: however many messages come at once, a process works with ten connections, and has one for its beats and one to
/// listen.
#[tokio::test(flavor = "multi_thread")]
async fn ten_connections_are_enough() {
    let app = Setup::default().env("RATE_LIMIT_PER_MINUTE", "10000").start().await;
    let crowd: Vec<_> = (0..120).map(|number| app.send_later(&format!("87{number:05}"), "hello")).collect();
    let sql = "select count(*)::int as count from pg_stat_activity
               where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
    let mut most = 0;
    while !crowd.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(app.rows(sql).await[0]["count"].as_i64().unwrap());
    }
    for answer in crowd {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert!((4..=12).contains(&most), "{most} connections");
}

/// DEC-15: a private server that dies under the service is named in one line that says what to do.
#[tokio::test]
async fn a_private_server_that_dies_is_named() {
    let app = Setup { database_url: Some("embedded:data".to_owned()), ..Setup::default() }.start().await;
    let majors: Vec<_> = std::fs::read_dir(app.folder.path.join("data")).unwrap().flatten().collect();
    let file = majors.iter().map(|major| major.path().join("postmaster.pid")).find(|file| file.is_file());
    let text = std::fs::read_to_string(file.unwrap()).unwrap();
    let server: i32 = text.lines().next().unwrap().trim().parse().unwrap();
    // SAFETY: a signal to the server that our own child has started.
    assert_eq!(unsafe { libc::kill(server, libc::SIGKILL) }, 0);
    let line = app.log_line("embedded Postgres ended by itself: stop this process and start it again").await;
    assert_eq!(line["level"], 50, "{line}");
    assert!(line["log"].as_str().unwrap().ends_with("server.log"), "{line}");
}
