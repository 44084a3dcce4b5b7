//! `agent contact find`, `export` and `erase`: who a conversation is with, and all data of one contact (DEC-13). The
//! export is the one output that holds a contact's data, on purpose (DEC-35); `find` prints the id, on request only.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::ensure;
use serde_json::json;
use uuid::Uuid;

use super::{WRONG_USE, database};
use crate::config::ManyChatSettings;
use crate::domain::{Clock, ConversationId, SubscriberId, SystemClock};
use crate::store::contacts;
use crate::store::personal::{self, Erased};

/// What export and erasure say of an id that the tenant does not know, mistyped ones included.
const NOTHING: &str = "nothing is stored about this contact";

/// Arguments of `find`.
#[derive(clap::Args, Debug)]
pub(super) struct FindArguments {
    /// The conversation's id, from a list or the log
    #[arg(value_parser = super::id)]
    conversation: Uuid,
}

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

/// Prints the contact's id in ManyChat and nothing else, so that a person can write to the contact there.
pub(super) fn find(arguments: &FindArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let conversation = ConversationId::from(arguments.conversation);
        let found = contacts::find(client, &loaded.settings.tenant, conversation).await?;
        let Some(subscriber) = found else { anyhow::bail!("this tenant has no such conversation") };
        database::print(&format!("{}\n", subscriber.expose()))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints JSON; exit 1 when nothing is stored.
pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let tenant = &loaded.settings.tenant;
        let subscriber = SubscriberId::stored(&arguments.subscriber);
        let Some(tables) = personal::export(client, tenant, &subscriber).await? else {
            anyhow::bail!(NOTHING);
        };
        let exported_at = SystemClock.now().to_string();
        let whole = json!({ "tenant": tenant.as_str(), "exported_at": exported_at, "tables": tables });
        database::print_json(&whole)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Erases after a confirmation; prints counts only. Exit 1 when nothing is stored.
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
        ensure!(total > 0, NOTHING);
        if arguments.dry_run {
            database::print(&lines(&counts, "would be erased"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if asks && !confirmed(total)? {
            anyhow::bail!("nothing was erased");
        }
        let tags = personal::tags_left(client, tenant, &subscriber).await?;
        let erased = personal::erase(client, tenant, &subscriber).await?;
        database::print(&lines(&erased, "erased"))?;
        eprint!("{}", left_in_manychat(&loaded.settings.manychat, &tags));
        Ok(ExitCode::SUCCESS)
    })
}

/// What the service has put there and cannot erase, with what to do (DEC-13).
fn left_in_manychat(settings: &ManyChatSettings, tags: &[String]) -> String {
    let mut lines = format!(
        "not erased, because ManyChat holds it: the last value of the fields `{}` and `{}`, the chat, and what else \
         your flows keep; delete the contact in ManyChat, or clear the two fields there\n",
        settings.reply_field, settings.token_field
    );
    for tag in tags {
        lines += &format!("ManyChat may still show the tag `{tag}` at this contact: remove it there\n");
    }
    lines
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
