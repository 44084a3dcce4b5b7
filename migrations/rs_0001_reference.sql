-- The tables shared with the reference implementation, as section 2 of specs/database.md names them.
--
-- Runs on an empty database and on one made by any known version of the reference. Every step looks at what exists
-- and never at recorded names (COMP-2), touches nothing that is already right (so a running process is not locked
-- out), and works in the schema that the search path selects (DB-4).

-- 1. Renames: only where the old name exists and the new one does not.
do $$
declare
    step record;
begin
    for step in
        select wanted.*
        from (values
            ('conversations', 'course', 'offering'),
            ('learning_runs', 'enrolled_count', 'converted_count'),
            ('learning_runs', 'not_enrolled_count', 'not_converted_count'),
            ('insight_proposals', 'enrolled_count', 'converted_count'),
            ('insight_proposals', 'not_enrolled_count', 'not_converted_count')
        ) as wanted (table_name, old_name, new_name)
        where exists (
                select from information_schema.columns as present
                where present.table_schema = current_schema() and present.table_name = wanted.table_name
                  and present.column_name = wanted.old_name)
          and not exists (
                select from information_schema.columns as present
                where present.table_schema = current_schema() and present.table_name = wanted.table_name
                  and present.column_name = wanted.new_name)
    loop
        execute format('alter table %I rename column %I to %I', step.table_name, step.old_name, step.new_name);
    end loop;
end
$$;

-- 2. Tables, each with the columns that could not be added to rows already there: keys, and values without a default.
create table if not exists conversations (
    id uuid primary key default gen_random_uuid(),
    tenant_id text not null,
    subscriber_id text not null,
    channel text not null
);
create table if not exists turns (
    id uuid primary key default gen_random_uuid(),
    conversation_id uuid not null,
    role text not null,
    text text not null
);
create table if not exists outbox (
    id uuid primary key default gen_random_uuid(),
    tenant_id text not null,
    subscriber_id text not null,
    payload jsonb not null
);
create table if not exists nudges (
    id uuid primary key default gen_random_uuid(),
    conversation_id uuid not null,
    due_at timestamptz not null
);
create table if not exists budget_counters (
    tenant_id text not null,
    day date not null,
    constraint budget_counters_tenant_id_day_pk primary key (tenant_id, day)
);
create table if not exists rate_counters (
    tenant_id text not null,
    subscriber_id text not null,
    window_start timestamptz not null,
    constraint rate_counters_tenant_id_subscriber_id_window_start_pk
        primary key (tenant_id, subscriber_id, window_start)
);
create table if not exists learning_runs (
    id uuid primary key default gen_random_uuid(),
    tenant_id text not null,
    week text not null
);
create table if not exists insight_proposals (
    id uuid primary key default gen_random_uuid(),
    tenant_id text not null,
    run_id uuid not null,
    text text not null,
    rationale text not null,
    converted_count integer not null,
    not_converted_count integer not null,
    turn_ids jsonb not null
);
create table if not exists playbook_versions (
    id uuid primary key default gen_random_uuid(),
    tenant_id text not null,
    content_hash text not null,
    insights jsonb not null
);
create table if not exists eval_records (
    id uuid primary key default gen_random_uuid(),
    tenant_id text not null,
    playbook_hash text not null,
    suite_hash text not null,
    model text not null,
    outcomes jsonb not null
);

-- 3. Every other column, where it is absent.
do $$
declare
    step record;
begin
    for step in
        select wanted.*
        from (values
            ('conversations', 'turn_count', 'integer not null default 0'),
            ('conversations', 'escalated_at', 'timestamptz'),
            ('conversations', 'token_hash', 'text'),
            ('conversations', 'previous_token_hash', 'text'),
            ('conversations', 'token_issued_at', 'timestamptz'),
            ('conversations', 'token_generation', 'integer not null default 0'),
            ('conversations', 'offering', 'text'),
            ('conversations', 'opening_sent_at', 'timestamptz'),
            ('conversations', 'created_at', 'timestamptz not null default now()'),
            ('conversations', 'updated_at', 'timestamptz not null default now()'),
            ('turns', 'seq', 'serial not null'),
            ('turns', 'outcome', 'text'),
            ('turns', 'model', 'text'),
            ('turns', 'bound', 'boolean not null default true'),
            ('turns', 'media_kind', 'text'),
            ('turns', 'actions', 'jsonb'),
            ('turns', 'reads', 'jsonb'),
            ('turns', 'input_tokens', 'integer'),
            ('turns', 'output_tokens', 'integer'),
            ('turns', 'cache_read_tokens', 'integer'),
            ('turns', 'cost_usd', 'numeric(12, 6)'),
            ('turns', 'latency_ms', 'integer'),
            ('turns', 'playbook_version', 'text'),
            ('turns', 'created_at', 'timestamptz not null default now()'),
            ('outbox', 'conversation_id', 'uuid'),
            ('outbox', 'kind', 'text not null default ''reply'''),
            ('outbox', 'status', 'text not null default ''pending'''),
            ('outbox', 'attempts', 'integer not null default 0'),
            ('outbox', 'next_attempt_at', 'timestamptz not null default now()'),
            ('outbox', 'last_error', 'text'),
            ('outbox', 'created_at', 'timestamptz not null default now()'),
            ('outbox', 'delivered_at', 'timestamptz'),
            ('nudges', 'status', 'text not null default ''pending'''),
            ('nudges', 'cancel_reason', 'text'),
            ('nudges', 'scheduled_at', 'timestamptz not null default now()'),
            ('nudges', 'created_at', 'timestamptz not null default now()'),
            ('nudges', 'updated_at', 'timestamptz not null default now()'),
            ('budget_counters', 'tokens', 'integer not null default 0'),
            ('budget_counters', 'cost_usd', 'numeric(12, 6) not null default 0'),
            ('rate_counters', 'count', 'integer not null default 0'),
            ('learning_runs', 'forced', 'boolean not null default false'),
            ('learning_runs', 'status', 'text not null default ''running'''),
            ('learning_runs', 'converted_count', 'integer'),
            ('learning_runs', 'not_converted_count', 'integer'),
            ('learning_runs', 'cost_usd', 'numeric(12, 6)'),
            ('learning_runs', 'started_at', 'timestamptz not null default now()'),
            ('learning_runs', 'finished_at', 'timestamptz'),
            ('insight_proposals', 'status', 'text not null default ''pending'''),
            ('insight_proposals', 'reviewed_at', 'timestamptz'),
            ('insight_proposals', 'created_at', 'timestamptz not null default now()'),
            ('playbook_versions', 'active', 'boolean not null default false'),
            ('playbook_versions', 'activated_at', 'timestamptz'),
            ('playbook_versions', 'created_at', 'timestamptz not null default now()'),
            ('eval_records', 'created_at', 'timestamptz not null default now()')
        ) as wanted (table_name, column_name, definition)
        where not exists (
            select from information_schema.columns as present
            where present.table_schema = current_schema() and present.table_name = wanted.table_name
              and present.column_name = wanted.column_name)
    loop
        execute format('alter table %I add column %I %s', step.table_name, step.column_name, step.definition);
    end loop;
end
$$;

-- 4. The contact's latest message. Rows from before the column get the time of their last change, in the one
--    transaction that adds it (ACC-DB-6).
do $$
begin
    if not exists (
        select from information_schema.columns
        where table_schema = current_schema() and table_name = 'conversations' and column_name = 'last_message_at')
    then
        alter table conversations add column last_message_at timestamptz not null default now();
        update conversations set last_message_at = updated_at;
    end if;
end
$$;

-- 5. Foreign keys, where no key between the two tables exists under any name.
do $$
declare
    step record;
begin
    for step in
        select wanted.*
        from (values
            ('turns', 'conversation_id', 'conversations', 'turns_conversation_id_conversations_id_fk'),
            ('outbox', 'conversation_id', 'conversations', 'outbox_conversation_id_conversations_id_fk'),
            ('nudges', 'conversation_id', 'conversations', 'nudges_conversation_id_conversations_id_fk'),
            ('insight_proposals', 'run_id', 'learning_runs', 'insight_proposals_run_id_learning_runs_id_fk')
        ) as wanted (table_name, column_name, target, constraint_name)
        where not exists (
            select from pg_constraint as present
            where present.contype = 'f'
              and present.conrelid = to_regclass(format('%I.%I', current_schema(), wanted.table_name))
              and present.confrelid = to_regclass(format('%I.%I', current_schema(), wanted.target)))
    loop
        execute format('alter table %I add constraint %I foreign key (%I) references %I (id) on delete cascade',
            step.table_name, step.constraint_name, step.column_name, step.target);
    end loop;
end
$$;

-- 6. Indexes, where the name is free.
do $$
declare
    step record;
begin
    for step in
        select wanted.*
        from (values
            ('conversations_tenant_subscriber_uq', true, 'conversations (tenant_id, subscriber_id)'),
            ('turns_conversation_created_idx', false, 'turns (conversation_id, created_at)'),
            ('outbox_claim_idx', false, 'outbox (status, next_attempt_at)'),
            ('outbox_queued_reply_idx', false,
                'outbox (tenant_id, subscriber_id, created_at)
                 where kind = ''reply'' and status in (''pending'', ''delivering'')'),
            ('nudges_one_pending_uq', true, 'nudges (conversation_id) where status = ''pending'''),
            ('nudges_claim_idx', false, 'nudges (status, due_at)'),
            ('learning_runs_week_uq', true, 'learning_runs (tenant_id, week) where forced = false'),
            ('insight_proposals_tenant_status_idx', false, 'insight_proposals (tenant_id, status)'),
            ('playbook_versions_content_uq', true, 'playbook_versions (tenant_id, content_hash)'),
            ('playbook_versions_one_active_uq', true, 'playbook_versions (tenant_id) where active = true'),
            ('eval_records_lookup_idx', false, 'eval_records (tenant_id, playbook_hash, suite_hash)')
        ) as wanted (index_name, is_unique, target)
        where to_regclass(format('%I.%I', current_schema(), wanted.index_name)) is null
    loop
        execute format('create %s %I on %s',
            case when step.is_unique then 'unique index' else 'index' end, step.index_name, step.target);
    end loop;
end
$$;

-- 7. The reference, started later on this database, finds nothing to apply (COMP-1).
insert into _migrations (name) values
    ('0000_third_living_tribunal.sql'),
    ('0001_massive_wallflower.sql'),
    ('0002_bumpy_manta.sql'),
    ('0003_worthless_swarm.sql'),
    ('0004_lucky_sabretooth.sql'),
    ('0005_lumpy_black_panther.sql'),
    ('0006_next_tattoo.sql'),
    ('0007_lumpy_triathlon.sql'),
    ('0008_demonic_spencer_smythe.sql'),
    ('0009_previous_maverick.sql'),
    ('0010_oval_prism.sql'),
    ('0011_fixed_the_leader.sql'),
    ('0012_offerings_and_conversions.sql')
on conflict (name) do nothing;
