use tokio_postgres::Client;

use super::*;
use crate::store::PoolLimits;
use crate::store::embedded::testing::{TestDatabase, TestServer};
use crate::store::outbox_operator::{self, Which};

/// A database with a pool and a plain connection.
struct Bench {
    database: Database,
    client: Client,
    _owner: TestDatabase,
}

impl Bench {
    async fn new() -> Self {
        let owner = TestServer::database().unwrap();
        let io = tokio::runtime::Handle::current();
        let database = Database::new(owner.config().clone().into(), io, PoolLimits::default()).unwrap();
        let client = owner.connect().await.unwrap();
        Self { database, client, _owner: owner }
    }

    /// Queues a reply that becomes due in `due` seconds.
    async fn queue(&self, subscriber: &str, text: &str, due: f64) -> Uuid {
        let sql = "with c as (
             insert into conversations (tenant_id, subscriber_id, channel) values ('t', $1, 'whatsapp')
             on conflict (tenant_id, subscriber_id) do update set channel = 'whatsapp' returning id),
           l as (insert into rs_lanes (conversation_id) select id from c on conflict do nothing)
           insert into outbox (tenant_id, subscriber_id, conversation_id, payload, next_attempt_at)
           select 't', $1, c.id, jsonb_build_object('messages', jsonb_build_array($2::text)),
                  now() + make_interval(secs => $3) from c returning id";
        self.client.query_one(sql, &[&subscriber, &text, &due]).await.unwrap().get(0)
    }

    async fn claimant(&self) -> Claimant {
        let process = ProcessId::fresh();
        let sql = "insert into rs_processes (id, tenant_id) values ($1, 't')";
        self.client.execute(sql, &[process.as_uuid()]).await.unwrap();
        Claimant {
            tenant: TenantId::new("t").unwrap(),
            process,
            lease: Duration::from_secs(60),
            dead: Duration::from_secs(20),
            gap: Duration::from_secs(2),
        }
    }

    async fn claim(&self, claimant: &Claimant, most: i64) -> Vec<Claim> {
        claim(&self.database, || Some(claimant.clone()), most, 10, Timestamp::now()).await.unwrap().replies
    }

    async fn row(&self, id: Uuid) -> (String, i32, Option<String>, Option<Uuid>) {
        let sql = "select status, attempts, last_error, rs_process_id from outbox where id = $1";
        let row = self.client.query_one(sql, &[&id]).await.unwrap();
        (row.get(0), row.get(1), row.get(2), row.get(3))
    }
}

/// AC-DL-11, BOX-10, PROC-2: concurrent workers get every row once.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_never_share_a_row() {
    let bench = Bench::new().await;
    for number in 0..30 {
        bench.queue(&number.to_string(), "text", -1.0).await;
    }
    let one = bench.claimant().await;
    let two = bench.claimant().await;
    let (first, second, third) =
        tokio::join!(bench.claim(&one, 10), bench.claim(&two, 10), bench.claim(&one, 10));
    let mut ids: Vec<Uuid> = first.iter().chain(&second).chain(&third).map(|claim| claim.id).collect();
    let taken = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), taken, "a row was taken twice");
    assert!(taken >= 10);
}

/// AC-DL-12, AC-DL-16, BOX-11, GAP-DL-4: only due rows, only a contact's oldest, at most as many as asked for.
#[tokio::test]
async fn only_a_contacts_oldest_due_reply_is_claimed() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let first = bench.queue("1", "first", 3600.0).await;
    bench.queue("1", "second", -1.0).await;
    assert!(bench.claim(&me, 10).await.is_empty(), "the second must wait for the first");
    let other = bench.queue("2", "other", -1.0).await;
    let claims = bench.claim(&me, 10).await;
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [other]);
    bench.client.execute("update outbox set next_attempt_at = now() where id = $1", &[&first]).await.unwrap();
    bench.queue("3", "third", -1.0).await;
    assert_eq!(bench.claim(&me, 1).await.len(), 1);
}

/// WRK-7, BOX-12, PACE-3: the contact's next reply follows, at its distance.
#[tokio::test]
async fn the_next_reply_follows_with_its_pause() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let first = bench.queue("1", "first", -1.0).await;
    let second = bench.queue("1", "second", -1.0).await;
    let claims = bench.claim(&me, 10).await;
    assert_eq!((claims.len(), claims[0].id, claims[0].pause), (1, first, Duration::ZERO));
    assert_eq!(claims[0].texts.expose(), &["first"]);
    assert!(delivered(&bench.database, &me, &claims[0]).await.unwrap().is_some());
    assert_eq!(bench.row(first).await, ("delivered".to_owned(), 1, None, None));
    let next = bench.claim(&me, 10).await;
    assert_eq!(next[0].id, second);
    assert!(next[0].pause > Duration::from_millis(1000) && next[0].pause <= me.gap, "{:?}", next[0].pause);
}

/// GAP-DL-2, which decides over DEL-5 (DEC-7): a retry goes on behind the texts that are out. BOX-14: later replies do not become due first.
#[tokio::test]
async fn a_retry_keeps_its_progress_and_moves_later_replies() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let first = bench.queue("1", "first", -1.0).await;
    let second = bench.queue("1", "second", -1.0).await;
    let claims = bench.claim(&me, 10).await;
    assert_eq!(progress(&bench.database, &me, &claims[0], 1).await.unwrap(), Held::Yes);
    let delay = Duration::from_secs(100);
    assert_eq!(retry(&bench.database, &me, &claims[0], "503", delay).await.unwrap(), Held::Yes);
    assert_eq!(bench.row(first).await, ("pending".to_owned(), 1, Some("503".to_owned()), None));
    let sql = "select bool_and(next_attempt_at > now() + interval '90 seconds') from outbox";
    assert!(bench.client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0), "both wait");
    let due = next_due(&bench.database, &me.tenant, true).await.unwrap().unwrap();
    assert!(due > Duration::from_secs(90) && due <= delay, "{due:?}");
    bench.client.execute("update outbox set next_attempt_at = now()", &[]).await.unwrap();
    let again = bench.claim(&me, 10).await;
    assert_eq!((again[0].id, again[0].attempt, again[0].sent), (first, 2, 1));
    assert_eq!(bench.row(second).await.0, "pending");
}

/// ARC-45, ARC-47: a claim that was taken over writes nothing any longer.
#[tokio::test]
async fn a_lost_claim_writes_nothing() {
    let bench = Bench::new().await;
    let (slow, quick) = (bench.claimant().await, bench.claimant().await);
    let id = bench.queue("1", "text", -1.0).await;
    let old = bench.claim(&slow, 10).await;
    assert!(bench.claim(&quick, 10).await.is_empty(), "a living claim is left alone");
    bench
        .client
        .execute("update outbox set rs_lease_until = now() - interval '1 second'", &[])
        .await
        .unwrap();
    let new = bench.claim(&quick, 10).await;
    assert_eq!((new[0].id, new[0].attempt), (id, 2));
    assert_eq!(progress(&bench.database, &slow, &old[0], 1).await.unwrap(), Held::Lost);
    assert!(delivered(&bench.database, &slow, &old[0]).await.unwrap().is_none());
    assert_eq!(retry(&bench.database, &slow, &old[0], "x", Duration::ZERO).await.unwrap(), Held::Lost);
    assert_eq!(dead_letter(&bench.database, &slow, &old[0], "x").await.unwrap(), Held::Lost);
    assert_eq!(release(&bench.database, &old[0]).await.unwrap(), Held::Lost);
    assert_eq!(bench.row(id).await, ("delivering".to_owned(), 2, None, Some(*quick.process.as_uuid())));
}

/// GAP-DL-1, GAP-DB-2, PROC-5, ARC-42, CRASH-3, CRASH-4, CRASH-8: a dead process's claim is free at once.
#[tokio::test]
async fn a_dead_process_holds_nothing() {
    let bench = Bench::new().await;
    let (dead, alive) = (bench.claimant().await, bench.claimant().await);
    bench.queue("1", "text", -1.0).await;
    assert_eq!(bench.claim(&dead, 10).await.len(), 1);
    let sql = "update rs_processes set beat_at = now() - interval '30 seconds' where id = $1";
    bench.client.execute(sql, &[dead.process.as_uuid()]).await.unwrap();
    assert_eq!(bench.claim(&alive, 10).await[0].attempt, 2);
}

/// GAP-DL-4, BOX-11, ARC-43: a dead letter that is sent anew is the oldest; it waits for the newer reply under way, and
/// for nobody who died over one.
#[tokio::test]
async fn a_dead_letter_sent_anew_waits_for_the_reply_under_way() {
    let bench = Bench::new().await;
    let (one, two) = (bench.claimant().await, bench.claimant().await);
    let old = bench.queue("1", "older", -1.0).await;
    let new = bench.queue("1", "newer", -1.0).await;
    bench.client.execute("update outbox set status = 'failed' where id = $1", &[&old]).await.unwrap();
    let under_way = bench.claim(&one, 10).await;
    assert_eq!(under_way[0].id, new);
    let again = outbox_operator::retry(&bench.client, &one.tenant, &Which::Ids(vec![old])).await.unwrap();
    assert_eq!(again.done, [old]);
    assert!(bench.claim(&two, 10).await.is_empty(), "the newer reply is being delivered");
    assert_eq!(next_due(&bench.database, &two.tenant, true).await.unwrap(), None, "nobody is woken for it");
    bench
        .client
        .execute("update outbox set rs_lease_until = now() - interval '1 second' where id = $1", &[&new])
        .await
        .unwrap();
    let claimed = bench.claim(&two, 10).await;
    assert_eq!(
        claimed.iter().map(|claim| claim.id).collect::<Vec<_>>(),
        [old],
        "an ended lease holds nothing up"
    );
    assert!(bench.claim(&two, 10).await.is_empty(), "and the newer one waits its turn");
    assert!(delivered(&bench.database, &two, &claimed[0]).await.unwrap().is_some());
    assert_eq!(bench.claim(&two, 10).await[0].id, new);
}

/// GAP-DL-4: whoever is about to claim a newer reply when the dead letter is sent anew has to look again.
#[tokio::test]
async fn a_dead_letter_sent_anew_moves_the_replies_that_wait() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let old = bench.queue("1", "older", -1.0).await;
    bench.queue("1", "newer", -1.0).await;
    bench.queue("2", "another contact's", -1.0).await;
    bench.client.execute("update outbox set status = 'failed' where id = $1", &[&old]).await.unwrap();
    outbox_operator::retry(&bench.client, &me.tenant, &Which::AllDead).await.unwrap();
    let sql =
        "select payload -> 'messages' ->> 0, next_attempt_at > now() from outbox order by created_at, id";
    let rows = bench.client.query(sql, &[]).await.unwrap();
    let moved = rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(String, bool)>>();
    let word = str::to_owned;
    assert_eq!(moved, [(word("older"), false), (word("newer"), true), (word("another contact's"), false)]);
}

/// COMP-6: a row the reference has claimed is watched for 15 minutes before it is taken back.
#[tokio::test]
async fn a_foreign_claim_is_watched_before_it_is_taken() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let id = bench.queue("1", "text", -7200.0).await;
    bench.client.execute("update outbox set status = 'delivering', attempts = 1", &[]).await.unwrap();
    assert!(bench.claim(&me, 10).await.is_empty());
    assert_eq!(next_due(&bench.database, &me.tenant, true).await.unwrap(), None);
    let watched = "select rs_lease_until > now() + interval '14 minutes' from outbox where id = $1";
    assert!(bench.client.query_one(watched, &[&id]).await.unwrap().get::<_, bool>(0));
    assert!(bench.claim(&me, 10).await.is_empty());
}

/// DEC-31, BOX-16: a dead letter calls a person. WRK-11: a released row is as it was.
#[tokio::test]
async fn a_dead_letter_calls_a_person_and_a_release_leaves_no_trace() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let id = bench.queue("1", "text", -1.0).await;
    let claims = bench.claim(&me, 10).await;
    assert_eq!(release(&bench.database, &claims[0]).await.unwrap(), Held::Yes);
    assert_eq!(bench.row(id).await, ("pending".to_owned(), 0, None, None));
    let claims = bench.claim(&me, 10).await;
    assert_eq!(dead_letter(&bench.database, &me, &claims[0], "refused").await.unwrap(), Held::Yes);
    assert_eq!(bench.row(id).await, ("failed".to_owned(), 1, Some("refused".to_owned()), None));
    let sql = "select (select count(*) from conversations where escalated_at is not null),
                      (select count(*) from rs_handoffs where closed_at is null)";
    let row = bench.client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 1));
}

/// DB-12: a payload may lack optional keys and carry unknown ones.
#[test]
fn a_payload_is_read_leniently() {
    let payload = serde_json::json!({"messages": ["a", "b"], "channel": "x", "actions": []});
    assert_eq!(texts_of(&payload), ["a", "b"]);
    assert!(texts_of(&serde_json::json!({"generation": 3})).is_empty());
}

/// GAP-DL-5: rows of one moment go out in the order in which they were queued, whatever their ids are.
#[tokio::test]
async fn rows_of_one_moment_keep_their_order() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    bench.queue("1", "first", -1.0).await;
    bench.queue("1", "second", -1.0).await;
    let sql = "update outbox set created_at = now(), id = case when payload->'messages'->>0 = 'first'
               then 'ffffffff-ffff-4fff-bfff-ffffffffffff'::uuid else '00000000-0000-4000-8000-000000000000' end";
    bench.client.execute(sql, &[]).await.unwrap();
    let claims = bench.claim(&me, 10).await;
    assert_eq!((claims.len(), claims[0].texts.expose()), (1, &vec!["first".to_owned()]));
}

/// COMP-8, PROC-2: the reference claims beside us, in one statement that skips locked rows: while its claim is under way
/// ours neither waits for it nor takes its row, and afterwards the row is its own.
#[tokio::test]
async fn a_claim_of_the_reference_and_ours_share_nothing() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let (theirs, ours) = (bench.queue("1", "theirs", -10.0).await, bench.queue("2", "ours", -1.0).await);
    let reference = bench._owner.connect().await.unwrap();
    let sql = "begin;
               update outbox set status = 'delivering', attempts = attempts + 1
               where id in (select id from outbox where status = 'pending' and next_attempt_at <= now()
                            order by next_attempt_at limit 1 for update skip locked)";
    reference.batch_execute(sql).await.unwrap();
    let claims = tokio::time::timeout(Duration::from_secs(5), bench.claim(&me, 10)).await.unwrap();
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [ours]);
    reference.batch_execute("commit").await.unwrap();
    assert!(bench.claim(&me, 10).await.is_empty());
    assert_eq!(bench.row(theirs).await, ("delivering".to_owned(), 1, None, None));
    let sql =
        "select count(*) from (select id from outbox where status = 'pending' for update skip locked) free";
    assert_eq!(reference.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "nor does it find ours");
}

/// ARC-47, PACE-2, PACE-3: the distance between two texts holds for a contact without a lane too, whichever way the first
/// delivery ends: any process finds it in the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_contact_without_a_lane_is_paced() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    for (contact, end) in ["progress", "delivered", "retry", "dead letter"].into_iter().enumerate() {
        let contact = contact.to_string();
        bench.queue(&contact, "first", -1.0).await;
        bench.queue(&contact, "second", -1.0).await;
        bench.client.execute("delete from rs_lanes", &[]).await.unwrap();
        let claim = bench.claim(&me, 1).await.remove(0);
        let (database, soon) = (&bench.database, Duration::ZERO);
        let held = match end {
            "progress" => {
                progress(database, &me, &claim, 1).await.unwrap();
                release(database, &claim).await.unwrap()
            }
            "delivered" => delivered(database, &me, &claim).await.unwrap().map_or(Held::Lost, |_| Held::Yes),
            "retry" => retry(database, &me, &claim, "503", soon).await.unwrap(),
            _ => dead_letter(database, &me, &claim, "refused").await.unwrap(),
        };
        assert_eq!(held, Held::Yes, "{end}");
        let next = bench.claim(&me, 1).await.remove(0);
        assert!(next.pause > Duration::from_secs(1), "{end}: {:?}", next.pause);
        bench.client.execute("delete from outbox", &[]).await.unwrap();
    }
}

/// ARC-46, QUIET-3: a reply that is a day old, to a contact who has written nothing since yesterday, is not sent; one to a
/// contact who has, bound or not, is, and so is what an operator sends anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_a_day_late_is_unreachable() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    for contact in ["silent", "young", "wrote", "unbound", "anew"] {
        bench.queue(contact, contact, -1.0).await;
    }
    let sql = "update conversations set last_message_at = now() - interval '25 hours';
               update conversations set last_message_at = now() where subscriber_id = 'wrote';
               update outbox set created_at = now() - interval '25 hours' where subscriber_id <> 'young';
               update outbox set rs_window_from = now() where subscriber_id = 'anew';
               insert into turns (conversation_id, role, text, bound)
               select id, 'user', 'hello', false from conversations where subscriber_id = 'unbound'";
    bench.client.batch_execute(sql).await.unwrap();
    let claims = bench.claim(&me, 10).await;
    let unreachable: Vec<&str> =
        claims.iter().filter(|claim| claim.unreachable).map(|claim| claim.subscriber.expose()).collect();
    assert_eq!((claims.len(), unreachable), (5, vec!["silent"]));
}

/// BOX-10: a look reads every waiting row about once, however many contacts wait, and not once more for each that it asks
/// whether something stands before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_reads_the_backlog_once() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let sql = "with c as (
                 insert into conversations (tenant_id, subscriber_id, channel)
                 select 't', n::text, 'whatsapp' from generate_series(1, 2000) n returning id, subscriber_id)
               insert into outbox (tenant_id, subscriber_id, conversation_id, payload)
               select 't', subscriber_id, id, '{\"messages\": [\"text\"]}' from c";
    bench.client.batch_execute(sql).await.unwrap();
    let explained = format!(
        "prepare look (text, bigint, uuid, float8, float8, bigint, timestamptz) as {CLAIM};
         {}",
        crate::store::statements::SESSION.join("; ")
    );
    bench.client.batch_execute(&explained).await.unwrap();
    let process = me.process.as_uuid();
    let look = format!(
        "explain (analyze, buffers, format json) execute look ('t', 20, '{process}', 60, 20, 4, now())"
    );
    let plan = bench.client.query_one(&look, &[]).await.unwrap().get::<_, Value>(0);
    let root = &plan[0]["Plan"];
    assert!(!plan.to_string().contains("Seq Scan"), "{plan:#}");
    let pages = root["Shared Hit Blocks"].as_i64().unwrap() + root["Shared Read Blocks"].as_i64().unwrap();
    assert_eq!(root["Actual Rows"].as_f64(), Some(20.0));
    assert!(pages < 3000, "{pages} pages for 2000 rows that wait");
}

/// ARC-42, PACE-2: a distance from before the clock was set back is waited for no longer than a distance is.
#[tokio::test]
async fn a_pause_is_never_longer_than_the_distance() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    bench.queue("1", "text", -1.0).await;
    let sql = "update rs_lanes set next_text_at = now() + interval '1 hour'";
    bench.client.batch_execute(sql).await.unwrap();
    assert_eq!(bench.claim(&me, 10).await[0].pause, me.gap);
}

/// ARC-42, GAP-DL-8: what is due later than anything may ask for was dated before the clock was set back, and is due now.
#[tokio::test]
async fn no_reply_waits_for_a_clock_that_was_set_back() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    let stuck = bench.queue("1", "stuck", 26.0 * 3600.0).await;
    bench.queue("2", "asked for", 3600.0).await;
    let due = next_due(&bench.database, &me.tenant, true).await.unwrap();
    assert!(due.is_some_and(|due| due < Duration::from_secs(1)), "{due:?}");
    let claims = bench.claim(&me, 10).await;
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [stuck]);
}

/// ARC-44: who claims, and whether it may call others dead, is asked when the connection is had: the wait for it can be long.
#[tokio::test]
async fn a_claim_is_made_by_what_the_process_is_when_it_has_its_connection() {
    let bench = Bench::new().await;
    let me = bench.claimant().await;
    bench.queue("1", "text", -1.0).await;
    let (io, limits) =
        (tokio::runtime::Handle::current(), PoolLimits { max_size: 1, ..PoolLimits::default() });
    let database = Database::new(bench._owner.config().clone().into(), io, limits).unwrap();
    let held = database.lease().await.unwrap();
    let asked = std::cell::Cell::new(0);
    let who = |found: Option<Claimant>| {
        let asked = &asked;
        move || {
            asked.set(asked.get() + 1);
            found
        }
    };
    let mut claiming = Box::pin(claim(&database, who(Some(me)), 10, 10, Timestamp::now()));
    for _ in 0..10 {
        assert!(futures_util::poll!(&mut claiming).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.get(), 0, "it still waits");
    held.give_back();
    assert_eq!((claiming.await.unwrap().replies.len(), asked.get()), (1, 1));
    let nobody = claim(&database, who(None), 10, 10, Timestamp::now()).await.unwrap();
    assert!(nobody.replies.is_empty(), "a silent process claims nothing");
}
