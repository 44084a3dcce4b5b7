use super::testing::TestServer;

/// EMB-2
#[tokio::test]
async fn a_test_database_is_migrated_and_private() {
    let database = TestServer::database().unwrap();
    let client = database.connect().await.unwrap();
    let rows = client.query("select name from _migrations", &[]).await.unwrap();
    assert_eq!(rows.len(), 15);
}
