-- What follows a reply whose response is only its beginning (GAP-CH-11): an outbox payload, moved to the outbox when
-- the beginning was handed over. Null on every other reply, and on one that goes through the outbox whole.
alter table rs_owed add column if not exists rest jsonb;
