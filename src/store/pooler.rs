//! Whether the database is reached through a pooler in transaction mode, and whether that one can be worked with
//! (DEC-29).

use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Address, StoreError, connect};

/// How often it is looked: a pooler that has a session to spare for the second connection shows nothing, and by the next
/// look it has dealt both of them anew.
const LOOKS: usize = 3;

/// How long one connection may wait for the other, which holds a server session meanwhile.
const LIMIT: Duration = Duration::from_secs(3);

const FORGETFUL: StoreError = StoreError::Unavailable {
    reason: "the transaction pooler in between loses prepared statements: use PgBouncer 1.21 or newer with max_prepared_statements above 0, a pool in session mode, or the server itself",
};

/// Looks at how `address` reaches the server, and remembers it there: behind a transaction pooler nothing is kept in a
/// session, and nobody listens for notices.
///
/// # Errors
/// When the server does not answer, or the pooler loses prepared statements.
pub async fn inspect(address: Address) -> Result<Address, StoreError> {
    let (one, other) = (connect(&address).await?, connect(&address).await?);
    let mut shared = false;
    for _ in 0..LOOKS {
        shared = shared || shares_sessions(&one, &other).await?;
    }
    if !shared {
        return Ok(address);
    }
    if !keeps_statements(&one, &other).await? {
        return Err(FORGETFUL);
    }
    Ok(address.behind_pooler())
}

/// Two connections of ours are two sessions of the server, and stay so, unless somebody in between deals them out.
async fn shares_sessions(one: &Client, other: &Client) -> Result<bool, StoreError> {
    let first = session(one).await?;
    other.batch_execute("begin").await?;
    let held = session(other).await?;
    // With one session for all, the first connection waits for the second one's transaction.
    let again = tokio::time::timeout(LIMIT, session(one)).await;
    other.batch_execute("rollback").await?;
    Ok(is_shared(first, held, again.ok().transpose()?))
}

fn is_shared(first: i32, held: i32, again: Option<i32>) -> bool {
    held == first || again != Some(first)
}

async fn session(client: &Client) -> Result<i32, StoreError> {
    let unexpected = StoreError::Unexpected { what: "pg_backend_pid" };
    let rows = client.simple_query("select pg_backend_pid()").await?;
    let found = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    found.ok_or(unexpected)
}

/// Whether a statement that one connection has prepared is known in the session it is given next.
async fn keeps_statements(one: &Client, other: &Client) -> Result<bool, StoreError> {
    let prepared = one.prepare("select 1").await?;
    other.batch_execute("begin").await?;
    session(other).await?;
    let used = tokio::time::timeout(LIMIT, one.query_one(&prepared, &[])).await;
    other.batch_execute("rollback").await?;
    match used {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) if error.code().is_some() => Ok(false),
        Ok(Err(error)) => Err(error.into()),
        // One session for all: the statement can only be where it was prepared.
        Err(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::testing::TestServer;

    /// DEC-29: sessions that are dealt out show in one way or the other.
    #[test]
    fn a_pooler_shows_by_the_sessions_it_deals_out() {
        assert!(!is_shared(1, 2, Some(1)), "two sessions, each with its connection");
        assert!(is_shared(1, 1, Some(2)), "the second connection got the first one's session");
        assert!(is_shared(1, 2, Some(3)), "the first connection was moved");
        assert!(is_shared(1, 2, None), "the first connection has to wait for the second");
    }

    /// DEC-29: a server that is reached straight is used with all it has.
    #[tokio::test]
    async fn a_direct_connection_is_no_pooler() {
        let server = TestServer::database().unwrap();
        let address = inspect(server.config().clone().into()).await.unwrap();
        assert!(!address.is_behind_pooler());
    }
}
