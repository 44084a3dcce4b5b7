//! Beginning an attempt: whose it is, and what other turns of the contact have to say to it. The parameters: $1 turn,
//! $2 process, $3 entry, $4 values behind the one it writes, $5 whether it sends an event or a flow that goes out once,
//! $6 number, $7 whether it claims the opening, $8 whether it is begun again.

/// True while an earlier turn of the contact has open actions, or a reply with actions that was handed over and is not yet
/// confirmed (STAGE-6). Where nothing moves for ten minutes, nobody waits any longer. `$turn` is an agent's row.
macro_rules! behind {
    ($turn:literal) => {
        concat!(
            "exists (
              select 1 from turns own join turns before
                on before.conversation_id = own.conversation_id and before.seq < own.seq
              where own.id = ",
            $turn,
            " and before.id in (
                select x.turn_id from rs_actions x
                where x.conversation_id = own.conversation_id and x.turn_id <> own.id
                  and x.created_at > statement_timestamp() - interval '10 minutes'
                union all
                select (o.payload ->> 'turnId')::uuid from rs_owed o
                where o.conversation_id = own.conversation_id and o.status = 'said' and o.actions is not null
                  and o.said_at > statement_timestamp() - interval '10 minutes'))"
        )
    };
}

/// True when a later turn of the contact has settled. `$turn` is an agent's row.
macro_rules! settled_later {
    ($turn:literal) => {
        concat!(
            "exists (select 1 from turns own join turns later
                       on later.conversation_id = own.conversation_id and later.role = 'agent' and later.seq > own.seq
                     where own.id = ",
            $turn,
            ")"
        )
    };
}

/// True when a turn of the contact has settled since the running turn `$turn` was opened.
macro_rules! settled_since {
    ($turn:literal) => {
        concat!(
            "exists (select 1 from rs_owed own join turns later
                       on later.conversation_id = own.conversation_id and later.role = 'agent'
                     where own.turn_id = ",
            $turn,
            " and later.seq > (select max(u.seq) from turns u
                               where u.conversation_id = own.conversation_id and u.id = any (own.user_turn_ids)))"
        )
    };
}

/// What does not keep an attempt back.
macro_rules! never {
    ($turn:literal) => {
        "false"
    };
}

/// Where entries `entry` that others have written a value behind the one of `$3`, or may have.
macro_rules! went_further {
    ($entry:literal) => {
        concat!(
            $entry,
            " ->> 'tool' = 'set_field' and ",
            $entry,
            " ->> 'id' = $3::jsonb ->> 'id' and ",
            $entry,
            " ->> 'value' = any ($4) and (",
            $entry,
            " ->> 'status' = 'performed' or ",
            $entry,
            " ->> 'error' like 'outcome unknown%')"
        )
    };
}

/// The attempts of other turns, as entries of the record.
macro_rules! attempts_of_others {
    () => {
        concat!(
            "select a.turn_id, a.action, a.started_at, a.finished_at, ",
            crate::store::attempts::attempted!(),
            " as entry from rs_attempts a
             where a.conversation_id = held.conversation_id and a.turn_id <> $1 and a.entry is not null"
        )
    };
}

/// The value that ManyChat took last for the field of `$3` from another turn, earlier ones included: one that settled while
/// this turn ran was not known to it (FN-STAGE-5, FN-INT-1).
macro_rules! written_last {
    () => {
        concat!(
            "select other.entry ->> 'value' from (",
            attempts_of_others!(),
            ") other
             where other.entry ->> 'tool' = 'set_field' and other.entry ->> 'id' = $3::jsonb ->> 'id'
               and other.entry ->> 'status' = 'performed'
             order by other.started_at desc, other.action desc limit 1"
        )
    };
}

/// True when another turn has attempted the event of `$3`: it is tried once, whatever became of it (FN-EVT-4, FN-EVT-8).
/// One that was given up without an attempt leaves it to whoever comes to the stage next.
macro_rules! fired {
    () => {
        concat!(
            "(exists (
                 select 1 from (",
            attempts_of_others!(),
            ") other
                 where other.entry ->> 'tool' = 'send_event' and other.entry ->> 'id' = $3::jsonb ->> 'id'
                   and coalesce(other.entry ->> 'error', '') !~ '^(not attempted|process ended first)')
               or exists (
                 select 1 from turns t
                 where t.conversation_id = held.conversation_id and t.role = 'agent'
                   and t.actions @> jsonb_build_array(jsonb_build_object(
                         'tool', 'send_event', 'id', $3::jsonb ->> 'id', 'status', 'performed'))))"
        )
    };
}

/// What keeps the attempt back, as one word, or null. $4: the values behind the one it writes; $5: whether it sends a flow
/// that goes out once, or an event. A write under way counts for as long as its request can take; afterwards nobody knows of
/// it.
macro_rules! kept_back {
    ($behind:ident, $ended:ident) => {
        concat!(
            "case
               when ",
            $ended!("$1"),
            " then 'ended'
               when ",
            $behind!("$1"),
            " then 'behind'
               when $4::text[] is not null and exists (
                 select 1 from (",
            attempts_of_others!(),
            ") other
                 where other.finished_at is null and other.started_at > statement_timestamp() - interval '12 seconds'
                   and other.entry ->> 'tool' = 'set_field' and other.entry ->> 'id' = $3::jsonb ->> 'id') then 'busy'
               when $4::text[] is not null and (exists (
                 select 1 from turns own join turns later
                   on later.conversation_id = own.conversation_id and later.seq > own.seq and later.role = 'agent'
                 cross join jsonb_array_elements(
                   case when jsonb_typeof(later.actions) = 'array' then later.actions else '[]' end) as e(entry)
                 where own.id = $1 and ",
            went_further!("e.entry"),
            ") or exists (
                 select 1 from (",
            attempts_of_others!(),
            ") other
                 where ",
            went_further!("other.entry"),
            " and (exists (select 1 from rs_owed o
                           where o.turn_id = other.turn_id and o.status = 'running')
                    or exists (select 1 from turns own join turns later
                                 on later.conversation_id = own.conversation_id and later.seq > own.seq
                               where own.id = $1 and later.id = other.turn_id)))
                 or (",
            written_last!(),
            ") = any ($4)) then 'outrun'
               when $5 and $3::jsonb ->> 'tool' = 'send_event' and ",
            fired!(),
            " then 'fired'
               when $5 and exists (
                 select 1 from (",
            attempts_of_others!(),
            ") other
                 where $3::jsonb ->> 'tool' = 'send_flow'
                   and other.entry ->> 'tool' = 'send_flow' and other.entry ->> 'id' = $3::jsonb ->> 'id'
                   and other.started_at > statement_timestamp() - interval '1 hour'
                   and (other.entry ->> 'status' = 'performed'
                     or other.entry ->> 'error' like 'outcome unknown%')) then 'taken'
             end"
        )
    };
}

/// Writes the attempt when `held` has a row and nothing keeps it back, and claims the opening with it where that is asked
/// for (FN-OPEN-9). Its answer is one word, a word of [`Begun`](super::Begun). One that the same process has begun and not finished is begun again where $8 allows it.
macro_rules! begin {
    ($held:expr, $behind:ident, $ended:ident) => {
        concat!(
            "with held as (",
            $held,
            "),
            judged as (
              select held.conversation_id, ",
            kept_back!($behind, $ended),
            " as kept_back from held),
            go as (
              select conversation_id from judged where kept_back is null),
            opening as (
              update conversations c set opening_sent_at = now(), updated_at = now()
              from go where $7 and c.id = go.conversation_id and c.opening_sent_at is null
              returning 1),
            begun as (
              insert into rs_attempts as a (turn_id, action, conversation_id, process_id, entry)
              select $1::uuid, $6::integer, go.conversation_id, $2::uuid, $3::jsonb from go
              where not $7 or exists (select 1 from opening)
              on conflict (turn_id, action) do update set started_at = now()
                where $8 and a.finished_at is null and a.process_id = excluded.process_id
              returning 1)
            select coalesce(
              (select kept_back from judged),
              case when not exists (select 1 from held) then 'superseded'
                   when exists (select 1 from begun) then 'yes'
                   when $7 and not exists (select 1 from opening) then 'opening_taken'
                   else 'before' end) as answer"
        )
    };
}

/// What [`begin!`] would find in the way, without writing anything; `yes` when that is nothing.
macro_rules! look {
    ($held:expr, $behind:ident, $ended:ident) => {
        concat!(
            "with held as (",
            $held,
            ")
            select coalesce(
              (select ",
            kept_back!($behind, $ended),
            " from held),
              case when exists (select 1 from held) then 'yes' else 'superseded' end) as answer"
        )
    };
}

/// The two statements about one kind of attempts.
pub(in crate::store) struct OfKind {
    /// Writes the attempt down.
    pub(in crate::store) begin: &'static str,
    /// Only looks; its parameters are the first five.
    pub(in crate::store) look: &'static str,
}

macro_rules! of_kind {
    ($held:expr, $behind:ident, $ended:ident) => {
        OfKind { begin: begin!($held, $behind, $ended), look: look!($held, $behind, $ended) }
    };
}

/// The turn while it runs: under the fence of its lane, and as long as it is this process's own.
macro_rules! running {
    () => {
        "select o.conversation_id from rs_owed o
         where o.turn_id = $1 and o.process_id = $2 and o.status = 'running'
           and (o.fence is null
             or exists (select 1 from rs_lanes l where l.conversation_id = o.conversation_id and l.turn_id = o.turn_id
                          and l.fence = o.fence))"
    };
}

/// While the model runs.
pub(in crate::store) const IN_TURN: OfKind = of_kind!(running!(), never, never);

/// What a dead process has left behind an action of its running turn: as long as no turn of the contact has settled since,
/// too (ARC-41).
pub(super) const INHERITED: OfKind = of_kind!(running!(), never, settled_since);

/// After the reply: as long as the open actions are this process's own.
pub(super) const AFTER: OfKind = of_kind!(
    "select x.conversation_id from rs_actions x where x.turn_id = $1 and x.process_id = $2",
    behind,
    never
);

/// For recovered actions, which may have waited long: as long as no later turn of the contact has settled, too (ARC-41).
pub(super) const RECOVERED: OfKind = of_kind!(
    "select x.conversation_id from rs_actions x where x.turn_id = $1 and x.process_id = $2",
    behind,
    settled_later
);
