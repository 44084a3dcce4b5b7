-- The hash of the token before the current one of the same issue, as `<generation>:<hash>` (GAP-DL-15): a write that
-- was given up may land late, after the worker has stored another token's hash. The next issue makes it void by its
-- generation, also when the reference issues, which does not know the column.
alter table conversations add column if not exists rs_unwritten_token text;

-- Whether a contact's first token has reached ManyChat is asked by conversation (DEC-24).
create index if not exists rs_outbox_contact_token_idx on outbox (conversation_id) where kind = 'contact_token';
