//! How a presented token compares with what the conversation knows, in one place: every statement that judges a
//! binding uses this fragment, so no two of them can disagree (TOK-10, DEC-24).

/// An SQL expression for the binding of a message to the conversation `c`: `first`, `bound` or `unbound`.
///
/// `c` must have the columns `id`, `token_hash`, `previous_token_hash`, `rs_unwritten_token`, `token_generation` and
/// `token_issued_at`. The parameters, each written as `"$n"`:
///
/// - `$digest` (text, may be null): SHA-256 of the presented token in lower-case hex. Comparing digests inside the
///   server tells nothing about the token (TOK-11, ARC-30).
/// - `$arrived` and `$now` (timestamptz): business time of the message's arrival and of the statement.
///
/// A message judged while it waits or after its wait is judged as of its arrival (DEC-24): it counts as `first` when
/// it came at most 15 s after the contact's first issue and before that token had reached ManyChat. When it reached
/// ManyChat is the database's time, so only the length of the wait is taken from the business clock (ARC-50).
macro_rules! binding_of {
    ($digest:literal, $arrived:literal, $now:literal) => {
        concat!(
            "case when c.token_hash is null then 'first'
                  when ",
            $digest,
            "::text = c.token_hash or ",
            $digest,
            " = c.previous_token_hash
                    or c.token_generation || ':' || ",
            $digest,
            " = c.rs_unwritten_token then 'bound'
                  when c.token_generation = 1 and ",
            $arrived,
            "::timestamptz <= c.token_issued_at + interval '15 seconds'
                    and not exists (
                      select 1 from outbox w
                      where w.conversation_id = c.id and w.kind = 'contact_token' and w.status = 'delivered'
                        and coalesce(w.delivered_at, '-infinity')
                            <= clock_timestamp() - greatest(",
            $now,
            "::timestamptz - ",
            $arrived,
            "::timestamptz, interval '0'))
                    then 'first'
                  else 'unbound' end"
        )
    };
}

pub(super) use binding_of;

#[cfg(test)]
mod tests {
    use crate::store::embedded::testing::TestServer;

    const JUDGE: &str =
        concat!("select ", binding_of!("$1", "now()", "now()"), " as binding from conversations c");

    /// TOK-11, TOK-2, ARC-30: digests are compared and nothing else, as wholes, and each of the two valid ones counts: with
    /// the token's own text, a part of a digest or other letters of it nothing is proved.
    #[tokio::test]
    async fn only_whole_digests_bind() {
        let server = TestServer::database().unwrap();
        let client = server.connect().await.unwrap();
        let digest = |text: &str| format!("encode(sha256('{text}'), 'hex')");
        let sql = format!(
            "insert into conversations (tenant_id, subscriber_id, channel, token_hash, previous_token_hash,
                                        token_generation, token_issued_at)
             values ('t', '1', 'whatsapp', {}, {}, 2, now() - interval '1 day')",
            digest("current"),
            digest("previous")
        );
        client.batch_execute(&sql).await.unwrap();
        for (presented, expected) in [
            (digest("current"), "bound"),
            (digest("previous"), "bound"),
            (digest("currentt"), "unbound"),
            (format!("upper({})", digest("current")), "unbound"),
            (format!("left({}, 63)", digest("current")), "unbound"),
            (format!("{} || ' '", digest("current")), "unbound"),
            ("'current'".to_owned(), "unbound"),
            ("''".to_owned(), "unbound"),
            ("null".to_owned(), "unbound"),
        ] {
            let value: Option<String> =
                client.query_one(&format!("select ({presented})::text"), &[]).await.unwrap().get(0);
            let found: String = client.query_one(JUDGE, &[&value]).await.unwrap().get("binding");
            assert_eq!(found, expected, "{presented}");
        }
    }
}
