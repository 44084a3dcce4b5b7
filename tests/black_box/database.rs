//! The service on databases of different origin.

use manychat_agent::store::embedded::testing::TestServer;

use crate::app::{Setup, free_port};

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
        let mut app = setup.prepare().await;
        app.env.insert("PORT".to_owned(), free_port().to_string());
        app.port = app.env["PORT"].parse().unwrap();
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
        .env("RACE_DEADLINE_MS", "900")
        .env("MODEL_ABORT_MS", "1500")
        .start()
        .await;
    app.run("alter table outbox add column channel text not null default 'manychat'").await;
    app.send("how much is it?").await;
    let rows = app.await_rows("select channel, status from outbox where kind = 'reply'").await;
    assert_eq!(rows[0]["channel"], "manychat");
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
