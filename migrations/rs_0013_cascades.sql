-- What goes with a conversation is found by it: deleting one read three whole tables (DEC-13, RET-1). The indexes that were
-- there are partial. On a large database they are built before this migration, without keeping writers out.
create index if not exists rs_outbox_conversation_idx on outbox (conversation_id);
create index if not exists rs_nudges_conversation_idx on nudges (conversation_id);
create index if not exists rs_handoffs_conversation_idx on rs_handoffs (conversation_id);
