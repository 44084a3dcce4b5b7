-- The order of replies that one transaction or one moment has queued: created_at is the transaction's time and can be equal
-- (GAP-DL-5). Rows of the reference get a number by the default (COMP-4); its statements never name the column.
alter table outbox add column if not exists rs_seq bigserial;
