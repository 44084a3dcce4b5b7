//! `agent tokens backfill`: contact tokens for contacts that have none (04 section 8.4, 06 section 7.8).

mod progress;
mod writing;

use std::process::ExitCode;

use tokio::runtime::Handle;

use super::boot::{self, Loaded, OpenDatabase};
use super::{database, local_http};
use crate::domain::{Clock, SystemClock};
use crate::store::backfill::{self, Scope};
use crate::store::{Database, PoolLimits};
use writing::{Backfill, Ending, Tally};

/// Most connections of the command (BF-1).
const CONNECTIONS: usize = 2;

/// Arguments of the command.
#[derive(clap::Args, Debug)]
pub(super) struct BackfillArguments {
    /// Change nothing; print how many contacts lack a token, exit 1 when there are any
    #[arg(long)]
    check: bool,
}

/// Runs no migration (MIG-8).
pub(super) fn run(arguments: &BackfillArguments) -> anyhow::Result<ExitCode> {
    let loaded = boot::load()?;
    if arguments.check {
        let database = boot::share_database(&loaded.settings)?;
        return local_http::block_on(check(&loaded, &database));
    }
    anyhow::ensure!(
        loaded.settings.manychat.api_token.is_some(),
        "tokens backfill writes tokens through ManyChat: set MANYCHAT_API_TOKEN"
    );
    let database = boot::share_database(&loaded.settings)?;
    local_http::block_on(fill(&loaded, &database))
}

fn scope(loaded: &Loaded) -> Scope {
    Scope::of_days(loaded.settings.tenant.clone(), loaded.tenant.rules.history_days, SystemClock.now())
}

/// BF-6, CLI-85. What was issued and has not arrived is no part of that count; it is told beside it, because such
/// contacts would be answered without their history.
async fn check(loaded: &Loaded, database: &OpenDatabase) -> anyhow::Result<ExitCode> {
    let client = database::connect(database).await?;
    let scope = scope(loaded);
    let missing = backfill::contacts_without_token(&client, &scope).await?;
    let days = loaded.tenant.rules.history_days;
    println!("contacts without a token among those of the last {days} days: {missing}");
    let unwritten = backfill::unwritten_tokens(&client, &scope).await?;
    if unwritten.waiting > 0 {
        eprintln!("tokens that the outbox worker still has to write: {}", unwritten.waiting);
    }
    if unwritten.given_up > 0 {
        eprintln!("tokens given up; the contact's next message issues anew: {}", unwritten.given_up);
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// BF-3 to BF-5, CLI-80 to CLI-84.
async fn fill(loaded: &Loaded, database: &OpenDatabase) -> anyhow::Result<ExitCode> {
    let scope = scope(loaded);
    let total = {
        let client = database::connect(database).await?;
        backfill::contacts_without_token(&client, &scope).await?
    };
    let limits = PoolLimits { max_size: CONNECTIONS, ..PoolLimits::default() };
    let pool = Database::new(database.address.clone(), Handle::current(), limits)?;
    let backfill = Backfill::new(pool.clone(), &loaded.settings, scope)?;
    let mut tally = Tally::default();
    let ending = backfill.run(total, &mut tally).await;
    pool.close();
    println!("tokens written: {}", tally.written);
    println!("tokens queued for the outbox worker to retry: {}", tally.queued);
    for (kind, count) in &tally.failures {
        eprintln!("writes that failed with {kind}: {count}");
    }
    match ending? {
        Ending::Complete => Ok(ExitCode::SUCCESS),
        Ending::Interrupted => {
            eprintln!("interrupted: run the command again to go on");
            Ok(ExitCode::FAILURE)
        }
        Ending::ManyChatDown => {
            eprintln!(
                "stopped, because ManyChat refused MANYCHAT_API_TOKEN or did not answer, one write after the \
                 other: check the key and the way to ManyChat, then run the command again to go on"
            );
            Ok(ExitCode::FAILURE)
        }
    }
}
