//! The statements of the outbox. $1 to $3 of those that write about a claim are its fence.

use crate::store::processes::dead;

/// When the row `$row` is due. Nothing legitimate waits for longer than the hour that a `Retry-After` can ask for: what is due
/// later was dated before the clock was set back, and would silence its contact for as long (ARC-42). It is due now.
macro_rules! due_at {
    ($row:literal) => {
        concat!(
            "(case when ",
            $row,
            ".next_attempt_at > now() + interval '70 minutes' then now() else ",
            $row,
            ".next_attempt_at end)"
        )
    };
}

/// Whether the row `o` can be claimed: it is due, or whoever claimed it has let it go; then it is taken over, and the
/// attempt counts (GAP-DL-1). The first condition follows from the second: it is the one that an index answers.
macro_rules! claimable {
    () => {
        concat!(
            "(o.status in ('pending', 'delivering')
        and (o.status = 'pending' and ",
            due_at!("o"),
            " <= now() or o.status = 'delivering' and ",
            let_go!(),
            "))"
        )
    };
}

/// The tenant's replies that are the oldest queued one of their contact, each with its place: `ready`. Every queued row is read
/// once, however many wait. `$under_way`: whether the row `o` is being delivered, which nothing of its contact passes.
///
/// One that was said and is not out yet goes first too. That is bounded: a living process confirms or queues it in a moment,
/// and after 5 minutes nobody waits for it any longer; a dead one's is queued by whoever recovers it, however old it is, for
/// whoever claims also recovers (LANE-6, ARC-42, ARC-43).
///
/// The order is that of the numbers, which are drawn behind the conversation's lock; dates only say how old a row is, because a
/// clock can fall back (ARC-43, GAP-DL-5). Rows from before there were numbers come first, by their dates. A reply that an
/// older version has said has no place, and is judged by its date.
macro_rules! ready {
    ($($under_way:tt)*) => {
        concat!(
            "waiting as materialized (
      select o.id, o.subscriber_id, o.conversation_id, o.created_at, coalesce(o.rs_seq, 0) as place, o.next_attempt_at, ",
            $($under_way)*,
            " as under_way
      from outbox o
      where o.tenant_id = $1 and o.kind = 'reply' and o.status in ('pending', 'delivering')),
    said as materialized (
      select s.conversation_id, min(s.place) as place, min(s.said_at) filter (where s.place is null) as said_at
      from rs_owed s
      where s.tenant_id = $1 and s.status = 'said' and not s.queued
        and (s.said_at > clock_timestamp() - interval '5 minutes'
          or not exists (select 1 from rs_processes p where p.id = s.process_id
                         and p.beat_at > statement_timestamp() - interval '1 minute'))
      group by s.conversation_id),
    heads as (
      select distinct on (w.subscriber_id collate \"C\") w.*
      from waiting w order by w.subscriber_id collate \"C\", w.place, w.created_at),
    ready as materialized (
      select h.id, ",
            due_at!("h"),
            " as next_attempt_at, h.place
      from heads h
      where not exists (select 1 from waiting u where u.under_way and u.subscriber_id = h.subscriber_id)
        and not exists (select 1 from said s where s.conversation_id = h.conversation_id
                          and (s.place < h.place or s.said_at < h.created_at)))"
        )
    };
}

/// Claims due replies, at most one a contact and always its oldest: two workers can neither take one row twice nor
/// overtake each other (BOX-10, BOX-11, PROC-2, GAP-DL-4). A dead letter that an operator sends anew is the oldest
/// while a newer reply may be under way; it waits for that one, whose field and flow it would mix with its own
/// (ARC-43). A claim that was let go holds nothing up. Token rows wait for nothing and hold nothing up (BOX-11, WRK-5).
///
/// The heads are found first; then rows are locked one by one, as they are due, until there are enough: whoever was quicker
/// has changed the row, and whether it can be claimed is asked of what it is now.
///
/// A reply is unreachable when it is more than a day old and the contact has written nothing since $7, a day ago by the
/// business clock: the channel takes nothing for them (ARC-46, QUIET-3). What an operator sends anew is tried.
pub(super) const CLAIM: &str = concat!(
    "with ",
    ready!("o.status = 'delivering' and ", let_go!(), " is not true"),
    ",
    replies as (
      select taken.id
      from (select * from ready where next_attempt_at <= now() order by next_attempt_at, place) r
      cross join lateral (select o.id from outbox o where o.id = r.id and ",
    claimable!(),
    " for update skip locked) taken
      order by r.next_attempt_at, r.place
      limit $2),
    tokens as (
      select o.id from outbox o
      where o.tenant_id = $1 and o.kind = 'contact_token' and ",
    claimable!(),
    " order by o.next_attempt_at, coalesce(o.rs_seq, 0)
      limit $6 for update skip locked)
    update outbox o
    set status = 'delivering', attempts = o.attempts + 1, rs_process_id = $3,
        rs_lease_until = clock_timestamp() + make_interval(secs => $4)
    where o.id = any (array(select id from replies union all select id from tokens))
    returning o.id, o.kind, o.subscriber_id, o.conversation_id, o.payload, o.attempts,
              coalesce(o.rs_texts_sent, 0) as sent,
              extract(epoch from clock_timestamp() - coalesce(o.rs_window_from, o.created_at))::float8 as age,
              greatest(0, extract(epoch from (select l.next_text_at from rs_lanes l
                                              where l.conversation_id = o.conversation_id) - clock_timestamp()))::float8
                as pause,
              o.kind = 'reply' and o.rs_window_from is null
                and o.created_at < clock_timestamp() - interval '24 hours'
                and not exists (
                  select 1 from conversations c
                  where c.tenant_id = o.tenant_id and c.subscriber_id = o.subscriber_id
                    and (c.last_message_at >= $7 or exists (
                      select 1 from turns t
                      where t.conversation_id = c.id and t.role = 'user' and t.created_at >= $7))) as unreachable"
);

/// A row that the reference has claimed carries no lease of ours; it gets one that no live claim outlasts, counted
/// from when we first saw it (COMP-6). One from before the row's present due time belongs to an earlier claim: the
/// reference does not clear our column when it gives a row back.
pub(super) const WATCH_FOREIGN: &str = "
    update outbox set rs_lease_until = now() + interval '15 minutes'
    where tenant_id = $1 and status = 'delivering' and rs_process_id is null
      and (rs_lease_until is null or rs_lease_until - interval '15 minutes' < next_attempt_at)";

/// Seconds until the next reply, or with $2 the next token row, is due, for the timer.
pub(super) const NEXT_DUE: &str = concat!(
    "with ",
    ready!("o.status = 'delivering'"),
    "
    select extract(epoch from least(
      (select min(r.next_attempt_at) from ready r),
      (select min(",
    due_at!("o"),
    ") from outbox o
       where o.tenant_id = $1 and o.kind = 'contact_token' and o.status = 'pending' and $2)
    ) - clock_timestamp())::float8 as due"
);

/// Stores how many texts are out, renews the lease and sets the contact's next sending time (GAP-DL-2, PACE-2): also that of a
/// contact who never had a turn here, and so has no lane yet (ARC-47).
pub(super) const PROGRESS: &str = "
    with held as (
      update outbox set rs_texts_sent = $4, rs_lease_until = clock_timestamp() + make_interval(secs => $5)
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id),
    paced as (
      insert into rs_lanes as l (conversation_id, next_text_at)
      select c.id, clock_timestamp() + make_interval(secs => $6)
      from held join conversations c on c.id = held.conversation_id
      on conflict (conversation_id) do update set next_text_at = excluded.next_text_at)
    select 1 as held from held";

/// Keeps a claim alive while its next text waits for its turn at ManyChat.
pub(super) const RENEW: &str = "
    update outbox set rs_texts_sent = $4, rs_lease_until = clock_timestamp() + make_interval(secs => $5)
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";

/// All texts are out, and so the reply's actions are open, in the name of this process (PERF-5, LIM-2). The names of the
/// reference's rows are ours: an agent's row that is not there opens nothing.
pub(super) const DELIVERED: &str = "
    with held as (
      update outbox
      set status = 'delivered', delivered_at = now(), last_error = null, rs_texts_sent = $4,
          rs_process_id = null, rs_lease_until = null
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id, tenant_id, subscriber_id, payload),
    opened as (
      insert into rs_actions (turn_id, conversation_id, tenant_id, process_id, actions)
      select t.id, held.conversation_id, held.tenant_id, $2, held.payload -> 'actions'
      from held join turns t on t.conversation_id = held.conversation_id and t.id::text = held.payload ->> 'turnId'
      where jsonb_typeof(held.payload -> 'actions') = 'array'
      on conflict (turn_id) do nothing
      returning turn_id, conversation_id, actions),
    paced as (
      insert into rs_lanes as l (conversation_id, next_text_at)
      select c.id, clock_timestamp() + make_interval(secs => $5)
      from held join conversations c on c.id = held.conversation_id
      on conflict (conversation_id) do update set next_text_at = excluded.next_text_at)
    select exists (select 1 from held) as held,
      (select jsonb_agg(jsonb_build_object('turn', opened.turn_id, 'conversation', opened.conversation_id,
                                           'subscriber', held.subscriber_id, 'actions', opened.actions))
       from opened, held) as opened";

/// Gives the row back for a later attempt; the contact's later replies become due no earlier (BOX-14), and the next
/// text keeps its distance (PACE-3).
pub(super) const RETRY: &str = "
    with held as (
      update outbox
      set status = 'pending', last_error = $4, rs_process_id = null, rs_lease_until = null,
          next_attempt_at = clock_timestamp() + make_interval(secs => $5)
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning id, tenant_id, subscriber_id, conversation_id, next_attempt_at),
    later as (
      update outbox o set next_attempt_at = greatest(o.next_attempt_at, held.next_attempt_at)
      from held
      where o.tenant_id = held.tenant_id and o.subscriber_id = held.subscriber_id and o.kind = 'reply'
        and o.status = 'pending' and o.id <> held.id),
    paced as (
      insert into rs_lanes as l (conversation_id, next_text_at)
      select c.id, clock_timestamp() + make_interval(secs => $6)
      from held join conversations c on c.id = held.conversation_id
      on conflict (conversation_id) do update set next_text_at = excluded.next_text_at)
    select 1 as held from held";

/// Gives the reply up: a person takes over (DEC-31), and its actions are dropped (BOX-17, PERF-6).
pub(super) const DEAD_LETTER: &str = "
    with held as (
      update outbox set status = 'failed', last_error = $4, rs_process_id = null, rs_lease_until = null
      where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3
      returning conversation_id, payload),
    marked as (
      update conversations c set escalated_at = now(), updated_at = now()
      from held where c.id = held.conversation_id
      returning 1),
    dropped as (
      update turns t
      set actions = (
        select jsonb_agg(case when e.value ->> 'status' = 'staged'
                              then e.value || '{\"status\": \"dead_lettered\"}' else e.value end order by e.place)
        from jsonb_array_elements(t.actions) with ordinality as e(value, place))
      from held
      where t.conversation_id = held.conversation_id and t.id::text = held.payload ->> 'turnId'
        and jsonb_typeof(t.actions) = 'array' and t.actions <> '[]'),
    called as (
      insert into rs_handoffs (conversation_id, reason)
      select conversation_id, 'low_confidence' from held where conversation_id is not null),
    paced as (
      insert into rs_lanes as l (conversation_id, next_text_at)
      select c.id, clock_timestamp() + make_interval(secs => $5)
      from held join conversations c on c.id = held.conversation_id,
           (select count(*) from marked) as after_the_conversation
      on conflict (conversation_id) do update set next_text_at = excluded.next_text_at)
    select 1 as held from held";

/// Gives the row back unattempted, as at a stop (WRK-11).
pub(super) const RELEASE: &str = "
    update outbox
    set status = 'pending', attempts = attempts - 1, rs_process_id = null, rs_lease_until = null
    where id = $1 and status = 'delivering' and rs_process_id = $2 and attempts = $3";
