//! Databases that are refused before anything is written to them, in words that say what to do.

use super::*;

async fn refused(client: &mut Client) -> String {
    let error = migrate(client).await.unwrap_err().to_string();
    assert!(!error.contains("left nothing behind"), "in words of its own: {error}");
    error
}

/// DB-4: a search path that leads nowhere.
#[tokio::test]
async fn a_schema_that_is_missing_is_said() {
    let (_database, mut client) = empty().await;
    client.batch_execute("set search_path = nonexistent").await.unwrap();
    let said = refused(&mut client).await;
    assert!(said.contains("search_path") && said.contains("create the schema"), "{said}");
}

/// A standby or a database that may only be read.
#[tokio::test]
async fn a_database_that_accepts_no_writes_is_said() {
    let (_database, mut client) = empty().await;
    client.batch_execute("set default_transaction_read_only = on").await.unwrap();
    let said = refused(&mut client).await;
    assert!(said.contains("standby") && said.contains("name the primary in DATABASE_URL"), "{said}");
}

/// COMP-2: another application's tables are left as they are.
#[tokio::test]
async fn tables_of_another_application_are_named() {
    let (_database, mut client) = empty().await;
    client
        .batch_execute(
            "create table turns (x int); create table conversations (id int); create table outbox (id int)",
        )
        .await
        .unwrap();
    let said = refused(&mut client).await;
    assert!(said.starts_with("conversations, outbox, turns in this schema"), "{said}");
    assert!(said.contains("a schema of its own"), "{said}");
    let left: i64 = client
        .query_one("select count(*) from pg_class where relname in ('_migrations', 'nudges')", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(left, 0);
}

/// A database that cannot hold every character is refused before a table is made, with its encoding and what to do.
#[tokio::test]
async fn a_database_that_is_not_utf8_is_refused() {
    let (database, client) = empty().await;
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = format!("other_{}_{}", encoding.to_lowercase(), std::process::id());
        let made = format!(
            "create database {name} encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'"
        );
        client.batch_execute(&made).await.unwrap();
        let config = database.config().clone().dbname(&name).to_owned();
        let (mut inside, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        let error = migrate(&mut inside).await.unwrap_err();
        let tables: i64 = inside
            .query_one("select count(*) from pg_class where relname = '_migrations'", &[])
            .await
            .unwrap()
            .get(0);
        drop(inside);
        let _ = driver.await;
        client.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
        assert!(matches!(&error, MigrationError::Encoding { found } if found == encoding), "{error}");
        assert!(error.to_string().contains("encoding 'UTF8'"), "{error}");
        assert_eq!(tables, 0);
    }
    assert!(check_encoding(&client).await.is_ok());
}

/// DB-3, DEC-29
#[test]
fn servers_before_15_are_refused() {
    assert!(refuse_old(15, "15.0").is_ok());
    assert!(refuse_old(18, "18.6").is_ok());
    let error = refuse_old(14, "14.11 (Debian)").unwrap_err().to_string();
    assert!(error.contains("14.11 (Debian)") && error.contains("15"), "{error}");
}
