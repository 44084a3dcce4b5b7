//! Migrations of a database in use: nobody who writes waits for long (PROC-6).

use super::*;

/// All migrations before this one.
async fn all_before(client: &mut Client, name: &str) {
    let before: Vec<Migration> =
        MIGRATIONS.iter().copied().filter(|migration| migration.name < name).collect();
    let ran = Migrator { migrations: &before, limits: Limits::default() }.run(client).await;
    // A column that a later one adds is missing still.
    assert!(matches!(ran, Ok(_) | Err(MigrationError::SchemaIncomplete { .. })), "{ran:?}");
}

/// All before the one that builds indexes on tables in use.
async fn before_the_cascades(client: &mut Client) {
    all_before(client, "rs_0013").await;
}

fn with_large_tables() -> Migrator<'static> {
    Migrator { migrations: MIGRATIONS, limits: Limits { large: 0, ..Limits::default() } }
}

async fn is_whole(client: &Client, index: &str) -> Option<bool> {
    let sql = "select indisvalid from pg_index where indexrelid = to_regclass($1)";
    client.query_opt(sql, &[&index]).await.unwrap().map(|row| row.get(0))
}

/// PROC-6, MIG-7: while an index is built, and waits for a transaction that has written, others write.
#[tokio::test]
async fn writers_go_on_while_an_index_is_built() {
    let (database, mut client) = empty().await;
    before_the_cascades(&mut client).await;
    let (holder, writer) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    let write = "insert into outbox (tenant_id, subscriber_id, payload) values ('shop', '1', '{}')";
    holder.batch_execute(&format!("begin; {write}")).await.unwrap();
    let migrator = with_large_tables();
    let (applied, ()) = tokio::join!(migrator.run(&mut client), async {
        let waits = "select 1 from pg_stat_activity
                     where datname = current_database() and wait_event_type = 'Lock' and query like 'create index%'";
        while writer.query(waits, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        writer.batch_execute(&format!("set lock_timeout = '1s'; {write}")).await.unwrap();
        holder.batch_execute("commit").await.unwrap();
    });
    assert!(applied.unwrap().contains(&"rs_0013_cascades".to_owned()));
    assert_eq!(is_whole(&client, "rs_outbox_conversation_idx").await, Some(true));
}

/// PROC-6, MIG-7: a turn under way, which has its conversation locked and comes to what is owed after it, ends before a
/// migration of both begins, and neither waits for the other.
#[tokio::test]
async fn a_turn_under_way_and_a_migration_do_not_wait_for_each_other() {
    let (database, mut client) = empty().await;
    all_before(&mut client, "rs_0012").await;
    let (turn, observer) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    let begin =
        "insert into conversations (tenant_id, subscriber_id, channel) values ('shop', '1', 'whatsapp');
        begin; set local lock_timeout = '500ms'; select 1 from conversations for no key update";
    turn.batch_execute(begin).await.unwrap();
    let (applied, ()) = tokio::join!(migrate(&mut client), async {
        let waits = "select 1 from pg_stat_activity
                     where datname = current_database() and wait_event_type = 'Lock' and query like '%rs_owed_tenant_idx%'";
        while observer.query(waits, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let settle = "update rs_owed set status = 'said'; delete from rs_turn_checks; commit";
        turn.batch_execute(settle).await.unwrap();
    });
    assert!(applied.unwrap().contains(&"rs_0012_owed_index".to_owned()));
}

/// MIG-4, MIG-7: what a build that was cut off has left is built anew, and the session keeps its settings.
#[tokio::test]
async fn a_half_built_index_is_built_anew() {
    let (_database, mut client) = empty().await;
    before_the_cascades(&mut client).await;
    let half = "create index rs_nudges_conversation_idx on nudges (conversation_id);
        update pg_index set indisvalid = false where indexrelid = to_regclass('rs_nudges_conversation_idx');
        set lock_timeout = '7s'";
    client.batch_execute(half).await.unwrap();
    with_large_tables().run(&mut client).await.unwrap();
    assert_eq!(is_whole(&client, "rs_nudges_conversation_idx").await, Some(true));
    let limit: String = client.query_one("show lock_timeout", &[]).await.unwrap().get(0);
    assert_eq!(limit, "7s");
    snapshot::assert_same(&snapshot::of(&client).await, &fresh_schema().await, "built ahead");
}

/// What is built ahead is what the migration would build.
#[test]
fn what_is_built_ahead_stands_in_its_migration() {
    for migration in MIGRATIONS {
        for index in migration.ahead {
            assert!(migration.sql.contains(&format!("{};", index.statement(false))), "{index:?}");
        }
    }
}

/// PROC-6: no table of the reference is written anew, and what it has queued before ours comes first.
#[tokio::test]
async fn no_table_of_the_reference_is_rewritten() {
    let (_database, mut client) = empty().await;
    history::build(&client, VERSIONS.last().unwrap().name).await;
    let sql =
        "select array(select pg_relation_filenode(name) from unnest(array['conversations', 'turns', 'outbox',
                 'nudges', 'budget_counters', 'rate_counters']) as name)";
    let before: Vec<u32> = client.query_one(sql, &[]).await.unwrap().get(0);
    migrate(&mut client).await.unwrap();
    let after: Vec<u32> = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(after, before);
}

/// DB-4, GAP-DL-5: a database that took the first form of the outbox's order keeps it, and has the same columns.
#[tokio::test]
async fn the_first_form_of_the_outbox_order_stays() {
    let (_database, mut client) = empty().await;
    migrate(&mut client).await.unwrap();
    client
        .batch_execute(
            "alter table outbox drop column rs_seq; drop sequence outbox_rs_seq_seq;
             alter table outbox add column rs_seq bigserial",
        )
        .await
        .unwrap();
    assert_eq!(migrate(&mut client).await.unwrap(), Vec::<String>::new());
    client.batch_execute("delete from _migrations where name >= 'rs_0008'").await.unwrap();
    migrate(&mut client).await.unwrap();
    let write =
        "insert into outbox (tenant_id, subscriber_id, payload) values ('shop', '1', '{}') returning rs_seq";
    assert_eq!(client.query_one(write, &[]).await.unwrap().get::<_, Option<i64>>(0), Some(1));
}

/// DEC-13, RET-1: deleting a conversation or a turn finds what goes with it by an index.
#[tokio::test]
async fn whatever_cascades_is_indexed() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    let sql = "select format('%s (%s)', k.conrelid::regclass, a.attname)
               from pg_constraint k join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
               where k.contype = 'f' and k.confrelid in ('conversations'::regclass, 'turns'::regclass) and not exists (
                 select 1 from pg_index i where i.indrelid = k.conrelid and i.indpred is null and i.indkey[0] = k.conkey[1])";
    let bare: Vec<String> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(bare, Vec::<String>::new());
}
