-- The place of a reply among those of its contact, drawn behind the conversation's lock when it is said, from the sequence that
-- numbers the outbox: what is queued later for it inherits it. Dates are no order: a clock can be set back, and a standby has
-- another one (ARC-43, GAP-DL-5). Replies that were said before have none, and are judged by their date. Nothing is rewritten.
alter table rs_owed add column if not exists place bigint;
