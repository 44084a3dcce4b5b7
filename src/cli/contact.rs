//! `agent contact export` and `agent contact erase`: all data of one contact (DEC-13). The export is the one output
//! that holds a contact's data, on purpose (DEC-35).

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::json;

use super::{WRONG_USE, database};
use crate::domain::{Clock, SubscriberId, SystemClock};
use crate::store::personal::{self, Erased};

/// Arguments of `export`.
#[derive(clap::Args, Debug)]
pub(super) struct ExportArguments {
    /// The contact's id in ManyChat
    subscriber: String,
}

/// Arguments of `erase`.
#[derive(clap::Args, Debug)]
pub(super) struct EraseArguments {
    /// The contact's id in ManyChat
    subscriber: String,
    /// Print what would be erased, erase nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask; needed where no terminal is
    #[arg(long)]
    yes: bool,
}

/// Prints JSON; exit 1 when nothing is stored.
pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let tenant = &loaded.settings.tenant;
        let subscriber = SubscriberId::stored(&arguments.subscriber);
        let Some(tables) = personal::export(client, tenant, &subscriber).await? else {
            anyhow::bail!("nothing is stored about this contact");
        };
        let exported_at = SystemClock.now().to_string();
        let whole = json!({ "tenant": tenant.as_str(), "exported_at": exported_at, "tables": tables });
        database::print_json(&whole)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Erases after a confirmation; prints counts only.
pub(super) fn erase(arguments: &EraseArguments) -> anyhow::Result<ExitCode> {
    let asks = !arguments.dry_run && !arguments.yes;
    if asks && !std::io::stdin().is_terminal() {
        eprintln!("erasing cannot be undone: confirm with --yes, or look first with --dry-run");
        return Ok(ExitCode::from(WRONG_USE));
    }
    database::run(async |loaded, client| {
        let tenant = &loaded.settings.tenant;
        let subscriber = SubscriberId::stored(&arguments.subscriber);
        let counts = personal::count(client, tenant, &subscriber).await?;
        let total = total_of(&counts);
        if arguments.dry_run || total == 0 {
            database::print(&lines(&counts, "would be erased"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if asks && !confirmed(total)? {
            anyhow::bail!("nothing was erased");
        }
        let tags = personal::tags_left(client, tenant, &subscriber).await?;
        let erased = personal::erase(client, tenant, &subscriber).await?;
        database::print(&lines(&erased, "erased"))?;
        for tag in tags {
            eprintln!("ManyChat may still show the tag `{tag}` at this contact: remove it there");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Asks on the terminal; only the whole word confirms.
fn confirmed(rows: u64) -> anyhow::Result<bool> {
    eprint!("{rows} rows of this contact will be erased for good. Type `erase` to go on: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "erase")
}

fn total_of(counts: &[Erased]) -> u64 {
    counts.iter().map(|count| count.rows).sum()
}

fn lines(counts: &[Erased], what: &str) -> String {
    let parts: String = counts.iter().map(|count| format!("{}: {}\n", count.table, count.rows)).collect();
    format!("{parts}{what}: {}\n", total_of(counts))
}
