-- The order of replies that one transaction or one moment has queued: created_at is the transaction's time and can be equal
-- (GAP-DL-5). Rows of the reference get a number by the default (COMP-4); its statements never name the column. Rows from
-- before have none and come first: a number for each would rewrite the table while nobody could use it (PROC-6).
create sequence if not exists outbox_rs_seq_seq;
alter table outbox add column if not exists rs_seq bigint;
alter table outbox alter column rs_seq set default nextval('outbox_rs_seq_seq');
