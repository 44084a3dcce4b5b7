//! `agent retention run`: deletes what is older than `rules.retentionDays` (DEC-13, RET-1). For a daily job of the
//! machine; the service itself deletes nothing.

use std::process::ExitCode;

use super::database;
use crate::domain::{Clock, SystemClock};
use crate::store::retention;

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct RunArguments {
    /// Print what would be deleted, delete nothing
    #[arg(long)]
    dry_run: bool,
}

/// Prints counts by table; exit 1 while retention is off.
pub(super) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    database::run_with_two(async |loaded, client, keeper| {
        let Some(days) = loaded.tenant.rules.retention_days else {
            anyhow::bail!(
                "retention is off and nothing was deleted: set retentionDays in rules.json to use it"
            );
        };
        let tenant = &loaded.settings.tenant;
        let now = SystemClock.now();
        let report = retention::run(client, keeper, tenant, days, now, arguments.dry_run).await?;
        let what = if arguments.dry_run { "would be deleted" } else { "deleted" };
        let total: u64 = report.iter().map(|part| part.rows).sum();
        let parts: String = report.iter().map(|part| format!("{}: {}\n", part.table, part.rows)).collect();
        database::print(&format!("{parts}{what}, older than {days} days: {total}\n"))?;
        Ok(ExitCode::SUCCESS)
    })
}
