//! The statements of Open. Each numbers its parameters for itself, in the order of its list of values in [`super`].

use crate::store::acted::acted_columns;
use crate::store::binding::binding_of;
use crate::store::takeover::{pause_columns, pause_join};

/// Finds or creates the conversation and takes its lane when that is free (ARC-45). An unbound message under
/// enforcement neither waits nor takes it (LANE-3). Messages that all stand in the inbox create none: where the
/// conversation is gone, the contact was erased after they came, and so were they (DEC-13).
pub(in crate::store) const TAKE_LANE: &str = concat!(
    "with found as (
       select id, token_hash, previous_token_hash, rs_unwritten_token, token_generation, token_issued_at
       from conversations where tenant_id = $1 and subscriber_id = $2 for no key update),
     made as (
       insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
       select $1::text, $2::text, $4::text, 0, $5::timestamptz where not exists (select 1 from found) and not $12
       on conflict (tenant_id, subscriber_id) do update set channel = conversations.channel
       returning id, token_hash, previous_token_hash, rs_unwritten_token, token_generation, token_issued_at),
     c as (select * from found union all select * from made),
     judged as (select c.id, ",
    binding_of!("$3", "$11", "$5"),
    " as binding from c),
     lane as (
       insert into rs_lanes as l (conversation_id, process_id, turn_id, fence, expires_at)
       select id, $7::uuid, $8::uuid, 1, clock_timestamp() + make_interval(secs => $9) from judged where binding <> 'unbound' or not $6
       on conflict (conversation_id) do update
         set process_id = excluded.process_id, turn_id = excluded.turn_id,
             fence = l.fence + 1, expires_at = excluded.expires_at
         where l.turn_id is null or l.expires_at <= clock_timestamp()
            or not exists (select 1 from rs_processes p
                           where p.id = l.process_id and p.beat_at > statement_timestamp() - make_interval(secs => $10))
       returning fence)
     select judged.id, judged.binding, (select fence from lane) as fence from judged"
);

/// Records the messages, counts them and issues a token where one is due, when it is their turn (CONV-4, W-2 to W-8):
/// the lane is ours, no dead process owes the contact a turn (DEC-35), and no other process has a message that waits
/// longer (ARC-45a). Messages behind such a one are left where they are. When it is not their turn, the lane is given
/// back and what has no row in the inbox yet gets one.
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
pub(in crate::store) const RECORD: &str = concat!(
    "with judged as (
       select c.id, ",
    binding_of!("$3", "$20", "$8"),
    " as binding,
         $19::text is not null
           and (c.token_hash is null
             or coalesce(c.token_issued_at, c.rs_reissued_at, '-infinity') <= $8::timestamptz - interval '1 hour') as due,
         c.token_hash is not null and c.token_issued_at is null as given_up, c.offering
       from conversations c where c.tenant_id = $1 and c.subscriber_id = $2),
     ended as (
       select 1 from rs_handoffs h where h.id = $5 union all select 1 from outbox x where x.id = $5),
     mine as (
       select i.id, i.message_id from rs_inbox i where i.message_id = any ($7::uuid[])),
     ahead as (
       select coalesce(min(i.id), 9223372036854775807) as id from rs_inbox i join judged j on i.conversation_id = j.id
       where i.process_id <> $12 and i.message_id <> all ($9::uuid[])),
     owed_first as (
       select o.turn_id from rs_owed o join judged j on o.conversation_id = j.id
       where o.status = 'running' and o.fence is not null and o.turn_id <> $5
         and not exists (select 1 from rs_processes p where p.id = o.process_id
                         and p.beat_at > statement_timestamp() - make_interval(secs => $16))
       order by o.created_at limit 1),
     go as (
       select j.id, j.binding, (j.binding <> 'unbound' or not $4) as bound, l.fence,
              j.due and j.binding <> 'bound' as issue, j.given_up
       from judged j left join rs_lanes l on l.conversation_id = j.id and l.turn_id = $5
       where (select count(*) from mine) = cardinality($7) and not exists (select 1 from ended)
         and (j.binding = 'unbound' and $4
           or l.turn_id is not null
              and (select coalesce(min(id), 9223372036854775806) from mine) < (select id from ahead)
              and not exists (select 1 from owed_first))),
     taken as (
       select m.id, m.text, m.kind, m.place
       from go cross join unnest($9::uuid[], $10::text[], $11::text[]) with ordinality as m(id, text, kind, place)
       left join mine i on i.message_id = m.id
       where go.fence is null or coalesce(i.id, 9223372036854775806) < (select id from ahead)),
     changed as (
       update conversations c
       set turn_count = case when not go.bound then c.turn_count
                             else case when c.last_message_at <= $6 then 0 else c.turn_count end
                                  + (select count(*) from taken)::integer end,
           last_message_at = case when go.bound then greatest(c.last_message_at, $8) else c.last_message_at end,
           previous_token_hash = case when go.issue and not go.given_up then c.token_hash else c.previous_token_hash end,
           rs_reissued_at = case when go.issue and go.given_up then $8 else c.rs_reissued_at end,
           token_hash = case when go.issue then $19::text else c.token_hash end,
           token_issued_at = case when go.issue then $8 else c.token_issued_at end,
           token_generation = c.token_generation + go.issue::integer,
           offering = case when go.bound then coalesce($21::text, c.offering) else c.offering end,
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
       select m.id, go.id, 'user', m.text, go.bound, m.kind, $8::timestamptz
       from go, taken m order by m.place),
     owed as (
       insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding,
                            user_turn_ids, received_at)
       select $5::uuid, go.id, $1::text, $12::uuid, go.fence, 'running', go.binding,
              array(select id from taken order by place), $15::timestamptz from go),
     rated as (
       insert into rate_counters as r (tenant_id, subscriber_id, window_start, count)
       select $1::text, $2::text, $13::timestamptz, (select count(*) from taken)::integer from go where $14
       on conflict (tenant_id, subscriber_id, window_start) do update set count = r.count + excluded.count
       returning r.count),
     nudged as (
       update nudges n set status = 'cancelled', cancel_reason = 'contact_replied', updated_at = now()
       from go where n.conversation_id = go.id and n.status = 'pending'),
     left_inbox as (
       delete from rs_inbox i using taken where i.message_id = taken.id),
     kept as (
       insert into rs_inbox (conversation_id, process_id, message_id, text, media_kind, token_digest, offering,
                             binding, received_at)
       select j.id, $12::uuid, m.id, m.text, m.kind, $3::text, m.offering, j.binding, m.received_at
       from judged j, unnest($9::uuid[], $10::text[], $11::text[], $17::text[], $18::timestamptz[])
            with ordinality as m(id, text, kind, offering, received_at, place)
       where not exists (select 1 from go) and not exists (select 1 from ended) and m.id <> all ($7) and (j.binding <> 'unbound' or not $4)
       order by m.place
       on conflict (message_id) do update set process_id = excluded.process_id
       returning message_id),
     given_back as (
       update rs_lanes l set turn_id = null, process_id = null, expires_at = null
       from judged j where l.conversation_id = j.id and l.turn_id = $5 and not exists (select 1 from go))
     select exists (select 1 from go) as started, (select binding from judged) as binding,
            (select offering from judged) as offering_before,
            (select turn_count from changed where bound) as turn_count, (select count from rated) as hourly_count,
            (select count(*) from taken)::integer as taken, (select id from token_row) as token_row,
            (select turn_id from owed_first where not exists (select 1 from go)) as owed_first,
            array(select message_id from mine union select message_id from kept) as waiting"
);

/// Reads what the turn needs: history when it may be read, and the day's spend with what is not yet confirmed and how
/// many turns are still to report theirs (HISTW-1 to HISTW-5, ARC-33). The binding is the recorded one. A `first` message
/// under enforcement reads nothing from before the contact's first token was issued: nothing proves that it is this
/// caller's (TOK-14, DEC-24).
pub(in crate::store) const READ: &str = concat!(
    "select coalesce(b.tokens, 0)::bigint + o.tokens as tokens, coalesce(b.cost_usd, 0) + o.cost_usd as cost_usd,
       case when me.binding <> 'unbound' or me.binding is not null and not $3 then (
         select coalesce(json_agg(json_build_object('role', h.role, 'text', h.text, 'actions', h.actions)
                                  order by h.seq), '[]'::json)
         from (select t.seq, t.role, t.text, t.actions from turns t
               where t.conversation_id = c.id and t.bound and t.id <> all ($5::uuid[])
                 and t.created_at >= case
                       when me.binding = 'bound' or not $3 then $4::timestamptz
                       when c.token_hash is null then 'infinity'
                       else greatest($4, coalesce(c.token_issued_at, 'infinity')) end
                 and t.outcome is distinct from 'nudge_skipped'
               order by t.seq desc limit $6) h) end as history,
       exists (select 1 from outbox x where x.tenant_id = $1 and x.subscriber_id = $2 and x.kind = 'reply'
                 and x.status in ('pending', 'delivering')) as reply_queued,
       (select count(*) from rs_owed r where r.tenant_id = $1 and r.status = 'running'
          and (r.created_at, r.turn_id) < (me.created_at, me.turn_id)) as running_before,
       ",
    acted_columns!("$9"),
    ",
       ",
    pause_columns!(),
    " from conversations c ",
    pause_join!(),
    "left join rs_owed me on me.turn_id = $8
     cross join lateral (select coalesce(sum(tokens), 0)::bigint as tokens, coalesce(sum(cost_usd), 0) as cost_usd
                         from rs_owed where tenant_id = $1 and status = 'said') o
     left join budget_counters b on b.tenant_id = $1 and b.day = $7
     where c.tenant_id = $1 and c.subscriber_id = $2"
);
