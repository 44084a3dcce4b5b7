//! The yardstick (ARC-70): the rows and commits of a turn as one statement each for Open and Settle, through `pgbench`.
//!
//! Included: conversation, lane, both `turns` rows, owed reply, hourly counter. Left out: everything a turn reads
//! (history, spend, outbox), the budget row, and the confirm's delete. Row ids are random here and ordered in the
//! service; each client has contacts of its own, so that nobody waits for a lane.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::postgres::{Database, Postgres};

/// Connections, as ARC-70 has it.
const CLIENTS: u64 = 8;

/// One turn. `\gset` carries ids from the first statement to the second, as the service carries them in memory.
const SCRIPT: &str = "\
\\set contact :client_id + CLIENTS * random(0, LAST)
with c as (
  insert into conversations (tenant_id, subscriber_id, channel, turn_count, last_message_at)
  values ('demo', (:contact)::text, 'whatsapp', 1, now())
  on conflict (tenant_id, subscriber_id) do update
    set turn_count = conversations.turn_count + 1, last_message_at = now(), updated_at = now()
  returning id),
ids as (select c.id, gen_random_uuid() as turn, gen_random_uuid() as process from c),
lane as (
  insert into rs_lanes as l (conversation_id, process_id, turn_id, fence, expires_at)
  select id, process, turn, 1, clock_timestamp() + interval '53 s' from ids
  on conflict (conversation_id) do update
    set process_id = excluded.process_id, turn_id = excluded.turn_id, fence = l.fence + 1,
        expires_at = excluded.expires_at
  returning fence),
recorded as (
  insert into turns (id, conversation_id, role, text, bound, created_at)
  select turn, id, 'user', 'How much is the foundation course?', true, now() from ids),
owed as (
  insert into rs_owed (turn_id, conversation_id, tenant_id, process_id, fence, status, binding, user_turn_ids,
                       received_at)
  select ids.turn, ids.id, 'demo', ids.process, lane.fence, 'running', 'first', array[ids.turn], now()
  from ids, lane),
rated as (
  insert into rate_counters as r (tenant_id, subscriber_id, window_start, count)
  select 'demo', (:contact)::text, date_trunc('hour', now()), 1
  on conflict (tenant_id, subscriber_id, window_start) do update set count = r.count + 1)
select ids.id as conversation, ids.turn as turn, lane.fence as fence from ids, lane \\gset
with lane as (
  update rs_lanes set turn_id = null, process_id = null, expires_at = null
  where conversation_id = (:conversation)::uuid and turn_id = (:turn)::uuid and fence = (:fence)::bigint
  returning 1),
owed as (
  update rs_owed
  set status = 'said', payload = '{\"messages\":[\"The Foundation Course is $450.00.\"]}', tokens = 1260,
      cost_usd = 0, charged = true, said_at = now()
  where turn_id = (:turn)::uuid and status = 'running' and exists (select 1 from lane)
  returning conversation_id)
insert into turns (conversation_id, role, text, outcome, model, bound, input_tokens, output_tokens,
                   cache_read_tokens, cost_usd, latency_ms, created_at)
select conversation_id, 'agent', 'The Foundation Course is $450.00. It runs 24 hours total. Want the enrolment link?',
       'answered_inline', 'mock-demo', true, 1200, 60, 1000, 0, 0, now() from owed;
";

/// What one run measured.
pub struct Measured {
    /// Turns a second.
    pub rate: f64,
    /// How many there were.
    pub turns: f64,
}

/// `pgbench` over one database.
pub struct PgBench {
    program: PathBuf,
    script: PathBuf,
    sockets: PathBuf,
    database: String,
}

impl PgBench {
    /// Writes the script for so many contacts.
    pub fn new(postgres: &Postgres, database: &Database, contacts: u64) -> anyhow::Result<Self> {
        let script = postgres.directory.join("turn.pgbench");
        let last = (contacts / CLIENTS).saturating_sub(1);
        fs::write(
            &script,
            SCRIPT.replace("CLIENTS", &CLIENTS.to_string()).replace("LAST", &last.to_string()),
        )?;
        Ok(Self {
            program: postgres.program("pgbench")?,
            script,
            sockets: postgres.sockets()?,
            database: database.name.clone(),
        })
    }

    /// Runs it for so long.
    pub fn run(&self, time: Duration) -> anyhow::Result<Measured> {
        let clients = CLIENTS.to_string();
        let mut command = Command::new(&self.program);
        command.args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--client", &clients]);
        command.arg("--time").arg(time.as_secs().to_string()).arg("--file").arg(&self.script);
        command.arg("--host").arg(&self.sockets).args(["--port=5432", "--username=app"]).arg(&self.database);
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "pgbench: {errors}");
        let text = String::from_utf8(output.stdout)?;
        Ok(Measured {
            rate: number_behind(&text, "tps = ")?,
            turns: number_behind(&text, "number of transactions actually processed: ")?,
        })
    }
}

fn number_behind(text: &str, name: &str) -> anyhow::Result<f64> {
    let rest = text.split_once(name).with_context(|| format!("pgbench did not say `{name}`: {text}"))?.1;
    let digits: String = rest.chars().take_while(|next| next.is_ascii_digit() || *next == '.').collect();
    Ok(digits.parse()?)
}
