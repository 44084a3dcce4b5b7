use std::collections::BTreeSet;

use super::*;
use crate::store::embedded::testing::TestServer;

/// DEC-13: a table that is added to the schema must be named here, so that export and erasure do not forget it.
#[tokio::test]
async fn every_table_of_the_schema_is_judged() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    let tables = names(
        &client,
        "select table_name from information_schema.tables
        where table_schema = current_schema() and table_type = 'BASE TABLE'",
    )
    .await;
    let judged: BTreeSet<String> = PERSONAL
        .iter()
        .map(|(table, _)| *table)
        .chain(IMPERSONAL.iter().copied())
        .map(str::to_owned)
        .collect();
    assert_eq!(judged, tables);
}

/// DEC-13, CONV-7: whatever names a conversation or a contact is personal.
#[tokio::test]
async fn every_reference_to_a_contact_is_followed() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    let personal: BTreeSet<String> = PERSONAL.iter().map(|(table, _)| (*table).to_owned()).collect();
    let columns = names(
        &client,
        "select table_name from information_schema.columns
        where table_schema = current_schema()
          and (column_name in ('conversation_id', 'subscriber_id') or column_name = 'conversation')",
    )
    .await;
    assert_eq!(columns.difference(&personal).collect::<Vec<_>>(), Vec::<&String>::new());
    let keys = names(
        &client,
        "select conrelid::regclass::text as table_name from pg_constraint
        where contype = 'f' and confrelid = 'conversations'::regclass",
    )
    .await;
    assert_eq!(keys.difference(&personal).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(keys.len() >= 8, "the test must see the keys: {keys:?}");
}

/// DEC-13: a column that sounds like a credential must be judged here, or an export would hold it. Only tables of which an
/// export is made count.
#[tokio::test]
async fn every_column_that_sounds_like_a_credential_is_judged() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    let tables: Vec<&str> = PERSONAL.iter().map(|(table, _)| *table).collect();
    let sql = "select distinct column_name from information_schema.columns
               where table_schema = current_schema() and table_name = any ($1)
                 and column_name ~* 'token|digest|hash|secret|key|password'";
    let rows = client.query(sql, &[&tables]).await.unwrap();
    let columns: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let judged = DIGESTS.iter().chain(NO_DIGESTS).map(|name| (*name).to_owned()).collect();
    assert_eq!(columns, judged);
}

async fn names(client: &Client, sql: &str) -> BTreeSet<String> {
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get("table_name")).collect()
}

/// DEC-13: a delivery that has its row and then wants the contact's, while an erasure has that one and wants the delivery's,
/// does not end the erasure.
#[tokio::test]
async fn an_erasure_outlives_a_delivery_in_its_way() {
    let database = TestServer::database().unwrap();
    let (mut eraser, mut delivery) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    let made = "with c as (insert into conversations (tenant_id, subscriber_id, channel) values ('t', '7', 'whatsapp')
                           returning id)
                insert into outbox (tenant_id, subscriber_id, conversation_id, payload) select 't', '7', id, '{}' from c";
    delivery.batch_execute(made).await.unwrap();
    let (tenant, subscriber) = (TenantId::new("t").unwrap(), SubscriberId::new("7").unwrap());
    let delivering = async {
        let transaction = delivery.transaction().await.unwrap();
        transaction.execute("update outbox set attempts = 1", &[]).await.unwrap();
        // By now the erasure has the contact's row and waits for this one; a second later the server sees it.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        transaction.query("select 1 from conversations for key share", &[]).await.unwrap();
        transaction.commit().await.unwrap();
    };
    let (erased, ()) = tokio::join!(erase(&mut eraser, &tenant, &subscriber), delivering);
    let rows: u64 = erased.unwrap().iter().map(|part| part.rows).sum();
    assert_eq!(rows, 2, "the contact and its delivery");
}
