//! The reference's schema as each of its versions left it, told step by step (06 section 3.1).

use tokio_postgres::Client;

/// One version: the name it records and what it changes.
pub(super) struct Version {
    pub(super) name: &'static str,
    sql: &'static str,
}

/// The main line, oldest first.
pub(super) const VERSIONS: &[Version] = &[
    Version {
        name: "0000_third_living_tribunal.sql",
        sql: "create table conversations (
                  id uuid not null default gen_random_uuid() primary key,
                  tenant_id text not null,
                  subscriber_id text not null,
                  channel text not null,
                  turn_count integer not null default 0,
                  escalated_at timestamp with time zone,
                  created_at timestamp with time zone not null default now(),
                  updated_at timestamp with time zone not null default now());
              create table turns (
                  id uuid not null default gen_random_uuid() primary key,
                  conversation_id uuid not null,
                  role text not null,
                  text text not null,
                  outcome text,
                  model text,
                  input_tokens integer,
                  output_tokens integer,
                  cache_read_tokens integer,
                  cost_usd numeric(12, 6),
                  latency_ms integer,
                  created_at timestamp with time zone not null default now());
              create table outbox (
                  id uuid not null default gen_random_uuid() primary key,
                  tenant_id text not null,
                  subscriber_id text not null,
                  conversation_id uuid,
                  payload jsonb not null,
                  status text not null default 'pending',
                  attempts integer not null default 0,
                  next_attempt_at timestamp with time zone not null default now(),
                  last_error text,
                  created_at timestamp with time zone not null default now(),
                  delivered_at timestamp with time zone);
              create table budget_counters (
                  tenant_id text not null,
                  day date not null,
                  tokens integer not null default 0,
                  cost_usd numeric(12, 6) not null default 0,
                  constraint budget_counters_tenant_id_day_pk primary key (tenant_id, day));
              create table rate_counters (
                  tenant_id text not null,
                  subscriber_id text not null,
                  window_start timestamp with time zone not null,
                  count integer not null default 0,
                  constraint rate_counters_tenant_id_subscriber_id_window_start_pk
                      primary key (tenant_id, subscriber_id, window_start));
              alter table turns add constraint turns_conversation_id_conversations_id_fk
                  foreign key (conversation_id) references conversations (id) on delete cascade;
              alter table outbox add constraint outbox_conversation_id_conversations_id_fk
                  foreign key (conversation_id) references conversations (id) on delete cascade;
              create unique index conversations_tenant_subscriber_uq on conversations (tenant_id, subscriber_id);
              create index turns_conversation_created_idx on turns (conversation_id, created_at);
              create index outbox_claim_idx on outbox (status, next_attempt_at);",
    },
    Version {
        name: "0001_massive_wallflower.sql",
        sql: "alter table turns add column seq serial not null;",
    },
    Version {
        name: "0002_bumpy_manta.sql",
        sql: "alter table conversations
                  add column last_message_at timestamp with time zone not null default now();
              update conversations set last_message_at = updated_at;",
    },
    Version {
        name: "0003_worthless_swarm.sql",
        sql: "alter table conversations add column token_hash text, add column previous_token_hash text,
                  add column token_issued_at timestamp with time zone,
                  add column token_generation integer not null default 0;
              alter table turns add column bound boolean not null default true;
              alter table outbox add column kind text not null default 'reply';",
    },
    Version { name: "0004_lucky_sabretooth.sql", sql: "alter table turns add column media_kind text;" },
    Version { name: "0005_lumpy_black_panther.sql", sql: "alter table turns add column actions jsonb;" },
    Version {
        name: "0006_next_tattoo.sql",
        sql: "create table nudges (
                  id uuid not null default gen_random_uuid() primary key,
                  conversation_id uuid not null,
                  due_at timestamp with time zone not null,
                  status text not null default 'pending',
                  cancel_reason text,
                  scheduled_at timestamp with time zone not null default now(),
                  created_at timestamp with time zone not null default now(),
                  updated_at timestamp with time zone not null default now(),
                  constraint nudges_conversation_id_conversations_id_fk
                      foreign key (conversation_id) references conversations (id) on delete cascade);
              create unique index nudges_one_pending_uq on nudges (conversation_id) where status = 'pending';
              create index nudges_claim_idx on nudges (status, due_at);",
    },
    Version {
        name: "0007_lumpy_triathlon.sql",
        sql: "alter table conversations add column course text;",
    },
    Version {
        name: "0008_demonic_spencer_smythe.sql",
        sql: "alter table conversations add column opening_sent_at timestamp with time zone;",
    },
    Version {
        name: "0009_previous_maverick.sql",
        sql: "create index outbox_queued_reply_idx on outbox (tenant_id, subscriber_id, created_at)
                  where kind = 'reply' and status in ('pending', 'delivering');",
    },
    Version {
        name: "0010_oval_prism.sql",
        sql: "create table learning_runs (
                  id uuid not null default gen_random_uuid() primary key,
                  tenant_id text not null,
                  week text not null,
                  forced boolean not null default false,
                  status text not null default 'running',
                  enrolled_count integer,
                  not_enrolled_count integer,
                  cost_usd numeric(12, 6),
                  started_at timestamp with time zone not null default now(),
                  finished_at timestamp with time zone);
              create unique index learning_runs_week_uq on learning_runs (tenant_id, week) where forced = false;
              create table insight_proposals (
                  id uuid not null default gen_random_uuid() primary key,
                  tenant_id text not null,
                  run_id uuid not null,
                  text text not null,
                  rationale text not null,
                  enrolled_count integer not null,
                  not_enrolled_count integer not null,
                  turn_ids jsonb not null,
                  status text not null default 'pending',
                  reviewed_at timestamp with time zone,
                  created_at timestamp with time zone not null default now(),
                  constraint insight_proposals_run_id_learning_runs_id_fk
                      foreign key (run_id) references learning_runs (id) on delete cascade);
              create index insight_proposals_tenant_status_idx on insight_proposals (tenant_id, status);
              create table playbook_versions (
                  id uuid not null default gen_random_uuid() primary key,
                  tenant_id text not null,
                  content_hash text not null,
                  insights jsonb not null,
                  active boolean not null default false,
                  activated_at timestamp with time zone,
                  created_at timestamp with time zone not null default now());
              create unique index playbook_versions_content_uq on playbook_versions (tenant_id, content_hash);
              create unique index playbook_versions_one_active_uq on playbook_versions (tenant_id)
                  where active = true;
              create table eval_records (
                  id uuid not null default gen_random_uuid() primary key,
                  tenant_id text not null,
                  playbook_hash text not null,
                  suite_hash text not null,
                  model text not null,
                  outcomes jsonb not null,
                  created_at timestamp with time zone not null default now());
              create index eval_records_lookup_idx on eval_records (tenant_id, playbook_hash, suite_hash);
              alter table turns add column playbook_version text;",
    },
    Version { name: "0011_fixed_the_leader.sql", sql: "alter table turns add column reads jsonb;" },
    Version {
        name: "0012_offerings_and_conversions.sql",
        sql: "alter table conversations rename column course to offering;
              alter table learning_runs rename column enrolled_count to converted_count;
              alter table learning_runs rename column not_enrolled_count to not_converted_count;
              alter table insight_proposals rename column enrolled_count to converted_count;
              alter table insight_proposals rename column not_enrolled_count to not_converted_count;",
    },
];

/// The side branch (DB-13), which may sit on any version from 0010 on.
pub(super) const SIDE_BRANCH: Version = Version {
    name: "0011_next_paladin.sql",
    sql: "alter table outbox add column channel text not null default 'manychat';",
};

/// Makes the database of one version: every step up to `last`, each recorded.
pub(super) async fn build(client: &Client, last: &str) {
    client
        .batch_execute(
            "create table _migrations
                 (name text primary key, applied_at timestamp with time zone not null default now())",
        )
        .await
        .unwrap();
    let end = VERSIONS.iter().position(|version| version.name == last).unwrap();
    for version in &VERSIONS[..=end] {
        apply(client, version).await;
    }
}

/// One more step.
pub(super) async fn apply(client: &Client, version: &Version) {
    client.batch_execute(version.sql).await.unwrap();
    client.execute("insert into _migrations (name) values ($1)", &[&version.name]).await.unwrap();
}

/// The first statements of the first version: what its runner, which has no transactions, leaves when it dies there.
pub(super) async fn build_half_of_the_first(client: &Client) {
    let sql = VERSIONS[0].sql;
    let end = sql.find("alter table turns").unwrap();
    client.batch_execute(&sql[..end]).await.unwrap();
}
