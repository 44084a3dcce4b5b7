-- Turns under way count against the day's caps, so Open finds those of the tenant at once (02 section 14).
create index if not exists rs_owed_running_idx on rs_owed (tenant_id) where status = 'running';
