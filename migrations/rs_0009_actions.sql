-- What follows a reply, and what is known of what followed earlier ones (ARC-34, ARC-41, ARC-46, ARC-46a). Only tables of
-- our own and nullable columns: the reference works beside them (COMP-4). Everything goes with its conversation (DEC-13).

-- Staged actions whose reply is out and that are not all done yet. turn_id is the agent's row of turns. The process
-- performs them; when it is dead, whoever recovers them.
create table if not exists rs_actions (
    turn_id uuid primary key,
    conversation_id uuid not null references conversations on delete cascade,
    tenant_id text not null,
    process_id uuid not null,
    actions jsonb not null,
    created_at timestamptz not null default now()
);
create index if not exists rs_actions_conversation_idx on rs_actions (conversation_id);
create index if not exists rs_actions_process_idx on rs_actions (process_id);

-- An attempt says what was attempted, in the form of the record: no name of ManyChat, no note. turn_id is the turn for
-- what was sent while the model ran, the agent's row for what followed the reply.
alter table rs_attempts add column if not exists entry jsonb;
alter table rs_attempts add column if not exists error text;

-- A flow of the turn plays until then: the reply is delivered no earlier (WAIT-2).
alter table rs_owed add column if not exists not_before timestamptz;

-- What all agent turns up to upto_seq have done: a cache (ARC-34). config names the entries of tools.json it was made by.
create table if not exists rs_summaries (
    conversation_id uuid primary key references conversations on delete cascade,
    upto_seq bigint not null,
    config text not null,
    known jsonb not null,
    updated_at timestamptz not null default now()
) with (fillfactor = 70);
