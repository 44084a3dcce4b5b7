mod history;
mod large;
mod refusals;
mod snapshot;

use std::collections::BTreeSet;

use tokio_postgres::error::SqlState;

use super::*;
use crate::store::embedded::testing::{TestDatabase, TestServer};
use history::{SIDE_BRANCH, VERSIONS};

const OURS: [&str; 14] = [
    "rs_0001_reference",
    "rs_0002_durability",
    "rs_0003_long_replies",
    "rs_0004_contact_tokens",
    "rs_0005_people",
    "rs_0006_inbox",
    "rs_0007_people_mended",
    "rs_0008_outbox_order",
    "rs_0009_actions",
    "rs_0010_budget",
    "rs_0011_turn_checks",
    "rs_0012_owed_index",
    "rs_0013_cascades",
    "rs_0014_reply_place",
];

async fn empty() -> (TestDatabase, Client) {
    let database = TestServer::empty_database().unwrap();
    let client = database.connect().await.unwrap();
    (database, client)
}

/// What the migrations make of an empty database.
async fn fresh_schema() -> BTreeSet<String> {
    static FRESH: tokio::sync::OnceCell<BTreeSet<String>> = tokio::sync::OnceCell::const_new();
    let look = || async {
        let database = TestServer::database().unwrap();
        snapshot::of(&database.connect().await.unwrap()).await
    };
    FRESH.get_or_init(look).await.clone()
}

async fn recorded(client: &Client) -> BTreeSet<String> {
    let rows = client.query("select name from _migrations", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn impatient() -> Limits {
    Limits {
        boot_lock: Duration::from_millis(50),
        table_lock: Duration::from_millis(10),
        // For several tries on a busy machine, too.
        retry: Duration::from_secs(3),
        pause: Duration::from_millis(5),
        large: i64::MAX,
    }
}

/// All migrations and one more.
fn with_extra(sql: &'static str) -> Vec<Migration> {
    let extra = Migration::new("rs_9999_extra", sql);
    MIGRATIONS.iter().copied().chain([extra]).collect()
}

/// MIG-2, COMP-3
#[test]
fn names_are_ours_and_in_lexical_order() {
    assert!(MIGRATIONS.iter().all(|migration| migration.name.starts_with("rs_")));
    assert!(MIGRATIONS.is_sorted_by_key(|migration| migration.name));
    assert_eq!(MIGRATIONS.iter().map(|migration| migration.name).collect::<Vec<_>>(), OURS);
}

/// ACC-DB-1, ACC-DB-7, COMP-1
#[tokio::test]
async fn an_empty_database_gets_the_schema_and_the_names_of_the_reference() {
    let (_database, mut client) = empty().await;
    assert_eq!(migrate(&mut client).await.unwrap(), OURS);
    let ours = snapshot::of(&client).await;

    let (_database, reference) = empty().await;
    history::build(&reference, "0012_offerings_and_conversions.sql").await;
    snapshot::assert_same(&snapshot::shared(&ours), &snapshot::of(&reference).await, "the shared part");

    let names = recorded(&client).await;
    let expected = VERSIONS.iter().map(|version| version.name).chain(OURS).map(str::to_owned).collect();
    assert_eq!(names, expected, "all names but the side branch's");
}

/// ACC-DB-2, MIG-3
#[tokio::test]
async fn a_second_run_applies_nothing() {
    let (_database, mut client) = empty().await;
    migrate(&mut client).await.unwrap();
    let before = snapshot::of(&client).await;
    assert_eq!(migrate(&mut client).await.unwrap(), Vec::<String>::new());
    snapshot::assert_same(&snapshot::of(&client).await, &before, "after a second run");
}

/// ACC-DB-3, MIG-6
#[tokio::test]
async fn of_five_that_boot_at_once_one_migrates() {
    let (database, first) = empty().await;
    drop(first);
    let boots = (0..5).map(|_| {
        let config = database.config().clone();
        tokio::spawn(async move {
            let (mut client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            migrate(&mut client).await.unwrap()
        })
    });
    let outcomes = futures_util::future::join_all(boots).await;
    let mut applied: Vec<_> =
        outcomes.into_iter().map(Result::unwrap).filter(|names| !names.is_empty()).collect();
    assert_eq!(applied.pop().unwrap(), OURS);
    assert!(applied.is_empty(), "only one process applied anything");
}

/// ACC-DB-4, MIG-4, MIG-5
#[tokio::test]
async fn a_failed_migration_leaves_nothing_and_is_tried_again() {
    let (_database, mut client) = empty().await;
    let migrations = with_extra("create table trace (id int); insert into cause values (1);");
    let migrator = Migrator { migrations: &migrations, limits: Limits::default() };

    let error = migrator.run(&mut client).await.unwrap_err();
    assert!(matches!(&error, MigrationError::Failed { migration: "rs_9999_extra", .. }), "{error}");
    assert!(error.to_string().contains("relation \"cause\" does not exist (SQLSTATE 42P01)"), "{error}");
    assert!(!recorded(&client).await.contains("rs_9999_extra"));
    assert!(!snapshot::of(&client).await.iter().any(|line| line.contains("trace")));

    client.batch_execute("create table cause (id int)").await.unwrap();
    assert_eq!(migrator.run(&mut client).await.unwrap(), ["rs_9999_extra"]);
}

/// COMP-2: the schema from every version equals the one from nothing, rows are kept and get the defaults.
#[tokio::test]
async fn every_version_of_the_reference_ends_in_the_same_schema() {
    let fresh = fresh_schema().await;
    for version in VERSIONS {
        let (_database, mut client) = empty().await;
        history::build(&client, version.name).await;
        client
            .batch_execute(
                "insert into conversations (tenant_id, subscriber_id, channel) values ('shop', '7', 'whatsapp');
                 insert into turns (conversation_id, role, text) select id, 'user', 'hello' from conversations;
                 insert into outbox (tenant_id, subscriber_id, conversation_id, payload)
                     select 'shop', '7', id, '{\"messages\": []}' from conversations;",
            )
            .await
            .unwrap();
        assert_eq!(migrate(&mut client).await.unwrap(), OURS, "from {}", version.name);
        snapshot::assert_same(&snapshot::of(&client).await, &fresh, version.name);
        let row = client
            .query_one(
                "select t.bound, t.actions is null, t.seq, o.kind, c.token_generation, o.rs_process_id is null
                 from conversations c join turns t on t.conversation_id = c.id
                 join outbox o on o.conversation_id = c.id",
                &[],
            )
            .await
            .unwrap();
        let kept = (row.get(0), row.get(1), row.get(2), row.get::<_, &str>(3), row.get(4), row.get(5));
        assert_eq!(kept, (true, true, 1_i32, "reply", 0_i32, true), "from {}", version.name);
    }
}

/// COMP-2: what exists decides, not what is recorded.
#[tokio::test]
async fn recorded_names_are_not_trusted() {
    let fresh = fresh_schema().await;
    let (_database, mut pushed) = empty().await;
    history::build(&pushed, "0010_oval_prism.sql").await;
    pushed.batch_execute("drop table _migrations").await.unwrap();
    migrate(&mut pushed).await.unwrap();
    snapshot::assert_same(&snapshot::of(&pushed).await, &fresh, "a schema without any record");

    let (_database, mut claimed) = empty().await;
    history::build(&claimed, "0002_bumpy_manta.sql").await;
    for version in &VERSIONS[3..] {
        claimed.execute("insert into _migrations (name) values ($1)", &[&version.name]).await.unwrap();
    }
    migrate(&mut claimed).await.unwrap();
    snapshot::assert_same(&snapshot::of(&claimed).await, &fresh, "records without their schema");
}

/// COMP-2: the reference runs without transactions and can die between two statements.
#[tokio::test]
async fn a_half_applied_first_version_is_completed() {
    let (_database, mut client) = empty().await;
    history::build_half_of_the_first(&client).await;
    migrate(&mut client).await.unwrap();
    snapshot::assert_same(&snapshot::of(&client).await, &fresh_schema().await, "from half a version");
}

/// ACC-DB-5
#[tokio::test]
async fn a_course_becomes_the_offering() {
    let (_database, mut client) = empty().await;
    history::build(&client, "0007_lumpy_triathlon.sql").await;
    client
        .batch_execute(
            "insert into conversations (tenant_id, subscriber_id, channel, course)
             values ('shop', '1', 'whatsapp', 'foundation'), ('shop', '2', 'whatsapp', null)",
        )
        .await
        .unwrap();
    migrate(&mut client).await.unwrap();
    let rows = client.query("select offering from conversations order by subscriber_id", &[]).await.unwrap();
    let offerings: Vec<Option<String>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(offerings, [Some("foundation".to_owned()), None]);
}

/// COMP-2: a rename happens only if the new name does not exist.
#[tokio::test]
async fn a_column_with_the_new_name_is_left_alone() {
    let (_database, mut client) = empty().await;
    history::build(&client, "0012_offerings_and_conversions.sql").await;
    client.batch_execute("alter table conversations add column course text default 'old'").await.unwrap();
    client
        .batch_execute(
            "insert into conversations (tenant_id, subscriber_id, channel, offering)
             values ('shop', '1', 'whatsapp', 'new')",
        )
        .await
        .unwrap();
    migrate(&mut client).await.unwrap();
    let row = client.query_one("select offering, course from conversations", &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("new", "old"));
}

/// ACC-DB-6
#[tokio::test]
async fn the_latest_message_is_dated_by_the_last_change_once() {
    let (_database, mut client) = empty().await;
    history::build(&client, "0001_massive_wallflower.sql").await;
    client
        .batch_execute(
            "insert into conversations (tenant_id, subscriber_id, channel, updated_at)
             values ('shop', '1', 'whatsapp', now() - interval '10 days')",
        )
        .await
        .unwrap();
    migrate(&mut client).await.unwrap();
    let same =
        "select last_message_at = updated_at, updated_at < now() - interval '9 days' from conversations";
    let row = client.query_one(same, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, true));

    // With the column there, a later run of the same migration keeps what the service wrote since.
    client
        .batch_execute(
            "update conversations set last_message_at = now();
             delete from _migrations where name = 'rs_0001_reference'",
        )
        .await
        .unwrap();
    assert_eq!(migrate(&mut client).await.unwrap(), ["rs_0001_reference"]);
    assert!(!client.query_one(same, &[]).await.unwrap().get::<_, bool>(0));
}

/// ACC-DB-8, COMP-7, DB-13
#[tokio::test]
async fn the_side_branch_keeps_its_column_and_its_default() {
    for base in ["0010_oval_prism.sql", "0012_offerings_and_conversions.sql"] {
        let (_database, mut client) = empty().await;
        history::build(&client, base).await;
        history::apply(&client, &SIDE_BRANCH).await;
        migrate(&mut client).await.unwrap();
        let mut schema = snapshot::of(&client).await;
        assert!(schema.remove("column outbox.channel text not null default 'manychat'::text"), "{schema:?}");
        snapshot::assert_same(&schema, &fresh_schema().await, base);
        let row = client
            .query_one(
                "insert into outbox (tenant_id, subscriber_id, payload) values ('shop', '1', '{}')
                 returning channel",
                &[],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), "manychat");
    }
}

/// ACC-DB-9, DB-14
#[tokio::test]
async fn of_two_pending_follow_ups_one_is_refused() {
    let database = TestServer::database().unwrap();
    let (first, second) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    first
        .batch_execute(
            "insert into conversations (tenant_id, subscriber_id, channel) values ('shop', '1', 'whatsapp')",
        )
        .await
        .unwrap();
    let insert = "insert into nudges (conversation_id, due_at) select id, now() from conversations";
    let (one, other) = tokio::join!(first.execute(insert, &[]), second.execute(insert, &[]));
    let refused: Vec<_> = [one, other].into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert_eq!(refused[0].as_db_error().and_then(|error| error.constraint()), Some("nudges_one_pending_uq"));
}

/// ACC-DB-10, MIG-1: this test runs itself in another directory.
#[tokio::test]
async fn migrations_do_not_depend_on_the_working_directory() {
    const ELSEWHERE: &str = "MIGRATIONS_TEST_ELSEWHERE";
    let (database, mut client) = empty().await;
    if std::env::var_os(ELSEWHERE).is_some() {
        assert_eq!(std::env::current_dir().unwrap(), std::fs::canonicalize("/").unwrap());
        assert_eq!(migrate(&mut client).await.unwrap(), OURS);
        return;
    }
    let name = "store::migrations::tests::migrations_do_not_depend_on_the_working_directory";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ELSEWHERE, "1")
        .env("TEST_DATABASE_URL", database.url())
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// DB-4
#[tokio::test]
async fn tables_go_into_the_schema_that_the_search_path_selects() {
    let (database, client) = empty().await;
    client.batch_execute("create schema shop").await.unwrap();
    let (mut inside, connection) = database
        .config()
        .clone()
        .options("-c search_path=shop")
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    migrate(&mut inside).await.unwrap();
    let fresh = fresh_schema().await;
    let moved: BTreeSet<_> =
        snapshot::of(&inside).await.iter().map(|line| line.replace("shop.", "public.")).collect();
    snapshot::assert_same(&moved, &fresh, "in another schema");
    assert!(snapshot::of(&client).await.is_empty(), "nothing in public");
}

/// COMP-11
#[tokio::test]
async fn what_a_newer_version_renamed_or_dropped_is_named() {
    let (_database, mut client) = empty().await;
    migrate(&mut client).await.unwrap();
    client
        .batch_execute("alter table turns rename column reads to lookups; drop table eval_records")
        .await
        .unwrap();
    let error = migrate(&mut client).await.unwrap_err();
    let MigrationError::SchemaIncomplete { missing } = &error else { panic!("{error}") };
    assert_eq!(missing, &["eval_records", "turns.reads"]);
    assert!(error.to_string().contains("eval_records, turns.reads"), "{error}");
}

/// COMP-11: a column that cannot be added to rows is named too.
#[tokio::test]
async fn a_drifted_column_of_the_first_version_is_named() {
    let (_database, mut client) = empty().await;
    history::build(&client, "0012_offerings_and_conversions.sql").await;
    client.batch_execute("alter table turns rename column text to body").await.unwrap();
    let error = migrate(&mut client).await.unwrap_err();
    assert!(
        matches!(&error, MigrationError::SchemaIncomplete { missing } if missing == &["turns.text"]),
        "{error}"
    );
}

/// COMP-11: the list of what is checked is the schema, no more and no less.
#[tokio::test]
async fn the_checked_columns_are_those_of_the_schema() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    let rows = client
        .query(
            "select table_name || '.' || column_name from information_schema.columns
             where table_schema = current_schema()",
            &[],
        )
        .await
        .unwrap();
    let present: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let checked: BTreeSet<String> = schema::EXPECTED
        .iter()
        .flat_map(|(table, columns)| {
            columns.split_whitespace().map(move |column| format!("{table}.{column}"))
        })
        .collect();
    assert_eq!(checked, present);
}

/// COMP-4: after our migrations, rows that name the reference's columns only are accepted everywhere.
#[tokio::test]
async fn writes_of_the_reference_are_accepted() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    client
        .batch_execute(
            "insert into conversations (tenant_id, subscriber_id, channel) values ('shop', '1', 'whatsapp');
             insert into turns (conversation_id, role, text, outcome, actions)
                 select id, 'agent', 'hello', 'replied', '[]' from conversations;
             insert into outbox (tenant_id, subscriber_id, conversation_id, payload)
                 select 'shop', '1', id, '{}' from conversations;
             update outbox set status = 'delivering';
             update outbox set status = 'delivered', delivered_at = now();
             insert into nudges (conversation_id, due_at) select id, now() from conversations;
             insert into budget_counters (tenant_id, day, tokens) values ('shop', current_date, 1)
                 on conflict (tenant_id, day) do update set tokens = budget_counters.tokens + excluded.tokens;
             insert into rate_counters (tenant_id, subscriber_id, window_start, count)
                 values ('shop', '1', now(), 1);
             insert into learning_runs (tenant_id, week) values ('shop', '2026-W48');
             insert into eval_records (tenant_id, playbook_hash, suite_hash, model, outcomes)
                 values ('shop', '', 'x', 'mock:demo', '{}');
             delete from conversations;",
        )
        .await
        .unwrap();
    let left: i64 = client
        .query_one("select (select count(*) from turns) + (select count(*) from outbox)", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(left, 0, "rows go with their conversation");
}

/// MIG-7
#[tokio::test]
async fn a_locked_table_is_tried_again_and_then_ends_the_boot() {
    let (database, mut client) = empty().await;
    // A sequence counts also what is rolled back.
    client.batch_execute("create table busy (id int); create sequence tries").await.unwrap();
    let mut other = database.connect().await.unwrap();
    let holding = other.transaction().await.unwrap();
    holding.batch_execute("lock table busy in access share mode").await.unwrap();
    let migrations = with_extra("select nextval('tries'); alter table busy add column more int;");
    let migrator = Migrator { migrations: &migrations, limits: impatient() };

    let error = migrator.run(&mut client).await.unwrap_err();
    assert!(matches!(error, MigrationError::TableBusy { migration: "rs_9999_extra" }), "{error}");
    let tries: i64 = client.query_one("select last_value from tries", &[]).await.unwrap().get(0);
    assert!(tries > 1, "{tries} tries");

    holding.rollback().await.unwrap();
    assert_eq!(migrator.run(&mut client).await.unwrap(), ["rs_9999_extra"]);
}

/// MIG-7: the limit of a lock wait is the transaction's, not the session's.
#[tokio::test]
async fn the_session_keeps_its_own_settings() {
    let (_database, mut client) = empty().await;
    client.batch_execute("set lock_timeout = '7s'").await.unwrap();
    migrate(&mut client).await.unwrap();
    let limit: String = client.query_one("show lock_timeout", &[]).await.unwrap().get(0);
    assert_eq!(limit, "7s");
}

/// MIG-6
#[tokio::test]
async fn a_boot_that_never_ends_stops_the_others_with_a_message() {
    let (database, mut client) = empty().await;
    let other = database.connect().await.unwrap();
    let stuck = BootLock::acquire(&other, Duration::ZERO).await.unwrap();
    let migrator = Migrator { migrations: MIGRATIONS, limits: impatient() };
    let error = migrator.run(&mut client).await.unwrap_err();
    assert!(matches!(error, MigrationError::BootLockHeld { .. }), "{error}");

    stuck.release(&other).await.unwrap();
    assert_eq!(migrator.run(&mut client).await.unwrap(), OURS);
}

/// DEC-29: behind a pooler in transaction mode, a statement may find itself in another session than the lock.
#[tokio::test]
async fn a_changed_session_is_detected_and_its_lock_does_not_stay() {
    let (database, first) = empty().await;
    let mut second = database.connect().await.unwrap();
    let lock = BootLock::acquire(&first, Duration::ZERO).await.unwrap();

    let transaction = second.transaction().await.unwrap();
    assert!(!BootLock::is_held_by(&transaction).await.unwrap());
    transaction.rollback().await.unwrap();

    assert!(matches!(lock.release(&second).await, Err(MigrationError::TransactionPooler)));
    let again = BootLock::acquire(&second, Duration::from_secs(10)).await.unwrap();
    again.release(&second).await.unwrap();
}
