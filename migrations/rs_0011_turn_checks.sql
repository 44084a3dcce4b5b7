-- Why a turn came to what it came to: cause, interventions, the model's certainty (01 section 17). Names and numbers, no
-- word of anybody. A table of our own: the reference works beside it (COMP-4). A row goes with its turn (DEC-13).
create table if not exists rs_turn_checks (
    turn_id uuid primary key references turns on delete cascade,
    conversation_id uuid not null references conversations on delete cascade,
    cause text,
    interventions text[] not null,
    confidence real,
    ungrounded integer not null default 0,
    escalation_reason text,
    created_at timestamptz not null default now()
);
create index if not exists rs_turn_checks_conversation_idx on rs_turn_checks (conversation_id);
