-- The people a handoff reaches, and the dead letters an operator decides about (DEC-25, DEC-9, GAP-DL-10). Only nullable
-- columns and indexes: the reference works beside them (COMP-4).

-- What became of the tag that calls a person. tag_state: null = never attempted, attempting, added, failed, unknown (it
-- may have been added), expired (too old to be attempted). untag_state, after closing: null = not attempted, attempting,
-- removed, failed, unknown. The tag's name is kept, because the rule can change while the handoff is open.
-- closed_by: operator, pause_over, tag_gone.
alter table rs_handoffs add column if not exists closed_by text;
alter table rs_handoffs add column if not exists tag text;
alter table rs_handoffs add column if not exists tag_state text;
alter table rs_handoffs add column if not exists untag_state text;
alter table rs_handoffs add column if not exists tag_process_id uuid;
alter table rs_handoffs add column if not exists tag_at timestamptz;
alter table rs_handoffs add column if not exists tag_error text;

-- What the workers look for once a second; empty nearly always.
create index if not exists rs_handoffs_uncalled_idx on rs_handoffs (opened_at)
    where closed_at is null and tag_state is null;
create index if not exists rs_handoffs_tagged_idx on rs_handoffs (conversation_id, opened_at)
    where tag_state in ('added', 'unknown');
create index if not exists rs_handoffs_attempting_idx on rs_handoffs (tag_at)
    where tag_state = 'attempting' or untag_state = 'attempting';

-- An operator gave a dead letter a fresh window, or decided that it is never sent. Null on every other row.
alter table outbox add column if not exists rs_window_from timestamptz;
alter table outbox add column if not exists rs_discarded_at timestamptz;
