-- The tag that calls a person goes for sure, a pause knows whether the agent has gone on, and a token is issued again at
-- most once an hour (DEC-25, DEC-9, BF-8). Only nullable columns and a default of our own table: the reference works
-- beside them (COMP-4).

-- Taking the tag off is tried again (BOX-13): how often it was tried, and when it is due again; null = it is over, or was
-- never tried. An addition that a process has claimed and not begun has tag_process_id and no tag_state.
alter table rs_handoffs add column if not exists untag_attempts integer;
alter table rs_handoffs add column if not exists untag_due_at timestamptz;
create index if not exists rs_handoffs_untag_idx on rs_handoffs (closed_at)
    where closed_at is not null and tag_state in ('added', 'unknown')
      and (untag_state is null or untag_state = 'attempting' or untag_due_at is not null);

-- The handoff's place in the order of turns, so that no two clocks are compared (ARC-50). Null on handoffs from before.
alter table rs_handoffs add column if not exists opened_seq bigint;
alter table rs_handoffs alter column opened_seq set default nextval(pg_get_serial_sequence('turns', 'seq'));

-- When a token was issued because the one before was given up (GAP-DL-16).
alter table conversations add column if not exists rs_reissued_at timestamptz;
