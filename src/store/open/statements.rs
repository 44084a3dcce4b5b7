//! The statements of Open. What a turn seldom needs stands in statements of its own: the server sets every part of a
//! statement up before it runs, also a part that finds nothing to do (ARC-70). Each numbers its parameters for itself, in
//! the order of its list of values in [`super`].

use crate::store::acted::acted_columns;
use crate::store::binding::binding_of;
use crate::store::processes::dead;
use crate::store::takeover::{pause_columns, pause_join};

/// Finds or creates the conversation and locks it: what the next statement reads and writes is then the contact's last
/// word (ARC-30). Messages that all stand in the inbox create none: where the conversation is gone, the contact was
/// erased after they came, and so were they (DEC-13).
///
/// $1 tenant, $2 subscriber, $3 channel, $4 now, $5 whether all messages stand in the inbox.
pub(in crate::store) const FIND: &str = "
    with found as (
      select id from conversations where tenant_id = $1 and subscriber_id = $2 for no key update),
    made as (
      insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
      select $1::text, $2::text, $3::text, 0, $4::timestamptz where not exists (select 1 from found) and not $5
      on conflict (tenant_id, subscriber_id) do update set channel = conversations.channel
      returning id)
    select id from found union all select id from made";

/// Takes the lane, records the messages, counts them, issues a token where one is due, and reads what the turn needs, when
/// it is the turn of these messages (ARC-45, CONV-4, W-2 to W-8): no dead process owes the contact a turn (DEC-35), no
/// other process has a message that waits longer (ARC-45a), and the lane is free. When it is not, nothing changes. An
/// unbound message under enforcement neither waits nor takes the lane (LANE-3).
///
/// Rows of this process do not count as waiting longer: it keeps their order itself.
///
/// A turn that has ended with a person already records nothing: its flight was given up for lost and came through after all
/// (ARC-40, ARC-43). What ended it bears its id.
///
/// The conversation's row has been locked by the statement before, so what is read of it here is what is changed: of two
/// messages at once only one finds a token due (TOK-20). The write that follows has a minute before the worker does it
/// anew (TOK-22, TOK-25). A token that was given up has no time of issue: the next takes its place at once, but the
/// previous one, which ManyChat still holds, stays (GAP-DL-16); of such issues one an hour is made (BF-8).
///
/// Read are the history, when that is allowed, and the day's spend with what is not yet confirmed and how many turns are
/// still to report theirs (HISTW-1 to HISTW-5, ARC-33). A `first` message under enforcement reads nothing from before the
/// contact's first token was issued: nothing proves that it is this caller's (TOK-14, DEC-24).
///
/// The binding is judged on the locked row, as of the last message's arrival (DEC-24). What stands in `c` is the row as it
/// was before this statement changed it.
///
/// $1 tenant, $2 subscriber, $3 digest of the presented token, $4 whether tokens are enforced, $5 turn; $6 what was last
/// said before then begins the count of turns anew, $7 now; $8 ids, $9 texts and $10 kinds of the messages; $11 process,
/// $12 hour of the limit, $13 whether the guards count, $14 when the first message arrived; $15 seconds after which a
/// process that owes a turn is dead; $16 digest of a fresh token, $17 when the last message arrived, $18 the offering that
/// it names; $19 seconds that the lane is held, $20 seconds after which its holder is dead; $21 how far back and $22 how
/// many turns are read, $23 the day of the budget. Times are the business clock's, seconds and lanes the database's
/// (ARC-50).
///
/// `$first`, `$whole` and `$is_first` say whether the messages may run, `$taken` and the three behind it which of them do,
/// `$gone` takes those out of the inbox.
macro_rules! open_statement {
    (
        first: $first:literal, whole: $whole:literal, is_first: $is_first:literal,
        taken: $taken:literal, from_taken: $from_taken:literal, count: $count:literal, ids: $ids:literal,
        gone: $gone:literal
    ) => {
        concat!(
            "with c as (
       select c.id, c.offering, c.token_hash, c.token_issued_at, ",
            binding_of!("$3", "$17", "$7"),
            " as binding,
         $16::text is not null
           and (c.token_hash is null
             or coalesce(c.token_issued_at, c.rs_reissued_at, '-infinity') <= $7::timestamptz - interval '1 hour') as due,
         c.token_hash is not null and c.token_issued_at is null as given_up
       from conversations c where c.tenant_id = $1 and c.subscriber_id = $2),
     ahead as (
       select min(i.id) as id from rs_inbox i join c on i.conversation_id = c.id
       where i.process_id <> $11 and i.message_id <> all ($8::uuid[])),
     owed_first as (
       select o.turn_id from rs_owed o join c on o.conversation_id = c.id
       where o.status = 'running' and o.fence is not null and o.turn_id <> $5
         and ",
            dead!("o.process_id", own: "$11", after: "$15"),
            "
       order by o.created_at limit 1),
     ",
            $first,
            "ready as (
       select c.id, c.binding, (c.binding <> 'unbound' or not $4) as bound, c.due and c.binding <> 'bound' as issue,
              c.given_up
       from c
       where not exists (select 1 from rs_handoffs h where h.id = $5)
         and not exists (select 1 from outbox x where x.id = $5)",
            $whole,
            "
         and (c.binding = 'unbound' and $4 or ",
            $is_first,
            " and not exists (select 1 from owed_first))),
     lane as (
       insert into rs_lanes as l (conversation_id, process_id, turn_id, fence, expires_at)
       select id, $11::uuid, $5::uuid, 1, clock_timestamp() + make_interval(secs => $19) from ready where bound
       on conflict (conversation_id) do update
         set process_id = excluded.process_id, turn_id = excluded.turn_id,
             fence = l.fence + 1, expires_at = excluded.expires_at
         where l.turn_id is null or l.expires_at <= clock_timestamp()
            or ",
            dead!("l.process_id", own: "$11", after: "$20"),
            "
       returning fence),
     go as (
       select ready.*, lane.fence from ready left join lane on true
       where lane.fence is not null or not ready.bound),
     ",
            $taken,
            "changed as (
       update conversations c
       set turn_count = case when not go.bound then c.turn_count
                             else case when c.last_message_at <= $6 then 0 else c.turn_count end
                                  + ",
            $count,
            " end,
           last_message_at = case when go.bound then greatest(c.last_message_at, $7) else c.last_message_at end,
           previous_token_hash = case when go.issue and not go.given_up then c.token_hash else c.previous_token_hash end,
           rs_reissued_at = case when go.issue and go.given_up then $7 else c.rs_reissued_at end,
           token_hash = case when go.issue then $16::text else c.token_hash end,
           token_issued_at = case when go.issue then $7 else c.token_issued_at end,
           token_generation = c.token_generation + go.issue::integer,
           offering = case when go.bound then coalesce($18::text, c.offering) else c.offering end,
           updated_at = now()
       from go where c.id = go.id and (go.bound or go.issue)
       returning c.id, c.turn_count, c.token_generation, go.bound, go.issue),
     token_row as (
       insert into outbox (tenant_id, subscriber_id, conversation_id, kind, payload, next_attempt_at)
       select $1::text, $2::text, id, 'contact_token', jsonb_build_object('generation', token_generation),
              now() + interval '60 seconds'
       from changed where issue
       returning id),
     recorded as (
       insert into turns (id, conversation_id, role, text, bound, media_kind, created_at)
       select m.id, go.id, 'user', m.text, go.bound, m.kind, $7::timestamptz
       from go, ",
            $from_taken,
            " order by m.place),
     owed as (
       insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding,
                            user_turn_ids, received_at)
       select $5::uuid, go.id, $1::text, $11::uuid, go.fence, 'running', go.binding,
              ",
            $ids,
            ", $14::timestamptz from go),
     rated as (
       insert into rate_counters as r (tenant_id, subscriber_id, window_start, count)
       select $1::text, $2::text, $12::timestamptz, ",
            $count,
            " from go where $13
       on conflict (tenant_id, subscriber_id, window_start) do update set count = r.count + excluded.count
       returning r.count),",
            $gone,
            "
     nudged as (
       update nudges n set status = 'cancelled', cancel_reason = 'contact_replied', updated_at = now()
       from go where n.conversation_id = go.id and n.status = 'pending')
     select c.id, c.binding, go.id is not null as started, go.fence,
       case when go.id is null then (select turn_id from owed_first) end as owed_first,
       (select turn_count from changed where bound) as turn_count, (select count from rated) as hourly_count,
       ",
            $count,
            " as taken, (select id from token_row) as token_row,
       case when go.bound then coalesce($18, c.offering) else c.offering end as offering,
       coalesce(b.tokens, 0)::bigint + o.tokens as tokens, coalesce(b.cost_usd, 0) + o.cost_usd as cost_usd,
       c.offering as offering_before, o.running_before,
       case when go.bound then (
         select coalesce(json_agg(json_build_object('role', h.role, 'text', h.text, 'actions', h.actions)
                                  order by h.seq), '[]'::json)
         from (select t.seq, t.role, t.text, t.actions from turns t
               where t.conversation_id = c.id and t.bound and t.id <> all ($8::uuid[])
                 and t.created_at >= case
                       when c.binding = 'bound' or not $4 then $21::timestamptz
                       when c.token_hash is null or go.issue then 'infinity'
                       else greatest($21, coalesce(c.token_issued_at, 'infinity')) end
                 and t.outcome is distinct from 'nudge_skipped'
               order by t.seq desc limit $22) h) end as history,
       exists (select 1 from outbox x where x.tenant_id = $1 and x.subscriber_id = $2 and x.kind = 'reply'
                 and x.status in ('pending', 'delivering')) as reply_queued
     from c left join go on go.id = c.id
     cross join lateral (
       select coalesce(sum(r.tokens) filter (where r.status = 'said'), 0)::bigint as tokens,
              coalesce(sum(r.cost_usd) filter (where r.status = 'said'), 0) as cost_usd,
              count(*) filter (where r.status = 'running' and (r.created_at, r.turn_id) < (now(), $5)) as running_before
       from rs_owed r where r.tenant_id = $1) o
     left join budget_counters b on b.tenant_id = $1 and b.day = $23"
        )
    };
}

/// [`open_statement`] for messages of which none stands in the inbox: nobody else's may wait.
pub(in crate::store) const OPEN: &str = open_statement! {
    first: "",
    whole: "",
    is_first: "(select id from ahead) is null",
    taken: "",
    from_taken: "unnest($8::uuid[], $9::text[], $10::text[]) with ordinality as m(id, text, kind, place)",
    count: "cardinality($8)",
    ids: "$8",
    gone: ""
};

/// [`open_statement`] for messages of which some or all stand in the inbox, $24. Messages behind one of another process
/// are left where they are. One that is gone from there was taken over or erased, and nothing starts.
pub(in crate::store) const OPEN_WAITING: &str = open_statement! {
    first: "mine as (
       select i.id, i.message_id from rs_inbox i where i.message_id = any ($24::uuid[])),
     ",
    whole: "
         and (select count(*) from mine) = cardinality($24)",
    is_first: "(select coalesce(min(id), 9223372036854775806) from mine)
                 < (select coalesce(id, 9223372036854775807) from ahead)",
    taken: "taken as (
       select m.id, m.text, m.kind, m.place
       from go cross join unnest($8::uuid[], $9::text[], $10::text[]) with ordinality as m(id, text, kind, place)
       left join mine i on i.message_id = m.id
       where go.fence is null
          or coalesce(i.id, 9223372036854775806) < (select coalesce(id, 9223372036854775807) from ahead)),
     ",
    from_taken: "taken m",
    count: "(select count(*) from taken)::integer",
    ids: "array(select id from taken order by place)",
    gone: "
     left_inbox as (
       delete from rs_inbox i using taken where i.message_id = taken.id),"
};

/// Writes what has to wait and has no row in the inbox yet, behind the conversation's lock, and says which of the messages
/// stand there (ARC-45a). What proves nothing waits for nobody (LANE-3). As in Open, a turn that has ended with a person
/// writes nothing.
///
/// The lane may have become free since Open, or another process's message have got ahead: then these have been accepted
/// after it, and whoever asks for them asks again in a moment. The binding is the one that Open has judged; the Open that
/// runs them judges anew.
///
/// $1 conversation, $2 turn, $3 ids of those that stand in the inbox, $4 process, $5 digest of the presented token,
/// $6 binding; $7 ids, $8 texts, $9 kinds, $10 offerings and $11 arrivals of all; $12 whether tokens are enforced.
pub(in crate::store) const KEEP: &str = "
    with mine as (
      select message_id from rs_inbox where message_id = any ($3::uuid[])),
    kept as (
      insert into rs_inbox (conversation_id, process_id, message_id, text, media_kind, token_digest, offering,
                            binding, received_at)
      select c.id, $4::uuid, m.id, m.text, m.kind, $5::text, m.offering, $6::text, m.received_at
      from conversations c, unnest($7::uuid[], $8::text[], $9::text[], $10::text[], $11::timestamptz[])
           with ordinality as m(id, text, kind, offering, received_at, place)
      where c.id = $1 and m.id <> all ($3) and ($6 <> 'unbound' or not $12)
        and not exists (select 1 from rs_handoffs h where h.id = $2)
        and not exists (select 1 from outbox x where x.id = $2)
      order by m.place
      on conflict (message_id) do update set process_id = excluded.process_id
      returning message_id)
    select array(select message_id from mine union all select message_id from kept) as waiting";

/// What earlier turns have done and whether a person has taken over, for a tenant whose rules ask for it.
///
/// $1 tenant, $2 subscriber, $3 the configuration that summaries are made by.
pub(in crate::store) const EARLIER: &str = concat!(
    "select ",
    acted_columns!("$3"),
    ", ",
    pause_columns!(),
    " from conversations c ",
    pause_join!(),
    "where c.tenant_id = $1 and c.subscriber_id = $2"
);
