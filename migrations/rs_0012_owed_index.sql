-- Less to keep in order for each turn (ARC-70). One index on the tenant serves what is said and what is running, and an
-- owed reply that turns from the one into the other stays where all indexes point to: its pages leave room for that. What
-- the checks made of a reply goes with its turn, and so with the conversation (DEC-13): to look the conversation up for each
-- row proves nothing more. Tables of our own: the reference works beside them (COMP-4). Conversations are locked first, as in
-- every turn: dropping the constraint locks them too, and a turn under way would wait for this while this waits for it.
lock table conversations, rs_owed, rs_turn_checks in access exclusive mode;
create index if not exists rs_owed_tenant_idx on rs_owed (tenant_id);
drop index if exists rs_owed_said_idx;
drop index if exists rs_owed_running_idx;
alter table rs_owed set (fillfactor = 50);
alter table rs_turn_checks drop constraint if exists rs_turn_checks_conversation_id_fkey;
