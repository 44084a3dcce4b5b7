-- The inbox in use (ARC-45a). Its rows carry the id that the message keeps as a row of turns: writing one twice writes it
-- once, and a process that lost its answer can find or withdraw it. The table was empty until now.
alter table rs_inbox add column if not exists message_id uuid not null default gen_random_uuid();
create unique index if not exists rs_inbox_message_idx on rs_inbox (message_id);
