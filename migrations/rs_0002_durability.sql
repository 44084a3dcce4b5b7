-- What must outlive a process: heartbeats, lanes, owed replies, the inbox, attempts, handoffs, the shared rate
-- (ARC-44 to ARC-48, DEC-25). Only tables of our own, nullable columns and an index: the reference works beside them
-- (COMP-4). Everything that belongs to a contact goes with its conversation (DEC-13).

-- A live process; dead when its beat is too old by the database's clock (ARC-44).
create table if not exists rs_processes (
    id uuid primary key,
    tenant_id text not null,
    started_at timestamptz not null default now(),
    beat_at timestamptz not null default now()
);

-- One turn at a time per contact (ARC-45). Free when turn_id is null. Updated in place at every turn: room for that.
create table if not exists rs_lanes (
    conversation_id uuid primary key references conversations on delete cascade,
    process_id uuid,
    turn_id uuid,
    fence bigint not null default 0,
    expires_at timestamptz,
    next_text_at timestamptz
) with (fillfactor = 70);

-- A reply that is not yet handed over (ARC-46). status: running, said.
create table if not exists rs_owed (
    turn_id uuid primary key,
    conversation_id uuid not null references conversations on delete cascade,
    tenant_id text not null,
    process_id uuid not null,
    fence bigint,
    status text not null,
    binding text not null,
    second_run boolean not null default false,
    user_turn_ids uuid[] not null,
    payload jsonb,
    actions jsonb,
    tokens bigint not null default 0,
    cost_usd numeric(12, 6) not null default 0,
    charged boolean not null default false,
    queued boolean not null default false,
    received_at timestamptz not null,
    created_at timestamptz not null default now(),
    said_at timestamptz
);
create index if not exists rs_owed_conversation_idx on rs_owed (conversation_id);
create index if not exists rs_owed_process_idx on rs_owed (process_id);
create index if not exists rs_owed_said_idx on rs_owed (tenant_id) where status = 'said';

-- Messages that wait behind a running turn (ARC-45a). A digest of the token, never the token; of media the kind only.
create table if not exists rs_inbox (
    id bigint generated always as identity primary key,
    conversation_id uuid not null references conversations on delete cascade,
    process_id uuid not null,
    text text not null,
    media_kind text,
    token_digest text,
    offering text,
    binding text not null,
    received_at timestamptz not null,
    created_at timestamptz not null default now()
);
create index if not exists rs_inbox_conversation_idx on rs_inbox (conversation_id, id);

-- One row before each request to ManyChat for a turn's action, finished after it (ARC-46a).
create table if not exists rs_attempts (
    turn_id uuid not null,
    action integer not null,
    conversation_id uuid not null references conversations on delete cascade,
    process_id uuid not null,
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    outcome text,
    primary key (turn_id, action)
);
create index if not exists rs_attempts_conversation_idx on rs_attempts (conversation_id);

-- A person was called for the contact (DEC-25); open until closed_at is set.
create table if not exists rs_handoffs (
    id uuid primary key default gen_random_uuid(),
    conversation_id uuid not null references conversations on delete cascade,
    turn_id uuid,
    reason text not null,
    opened_at timestamptz not null default now(),
    closed_at timestamptz
);
create index if not exists rs_handoffs_open_idx on rs_handoffs (conversation_id) where closed_at is null;

-- The shared rate towards ManyChat: theoretical arrival time of the next call (ARC-48).
create table if not exists rs_rate (
    tenant_id text primary key,
    tat timestamptz not null
);

-- Who delivers an outbox row until when, and how many of its texts are out (ARC-47). Null on rows of the reference.
alter table outbox add column if not exists rs_process_id uuid;
alter table outbox add column if not exists rs_lease_until timestamptz;
alter table outbox add column if not exists rs_texts_sent integer;

-- History is read in the order of seq (DB-10, GAP-DB-5).
create index if not exists turns_conversation_seq_idx on turns (conversation_id, seq);
