//! `agent tokens backfill`: contact tokens for contacts that have none (06 section 7.8).

use std::process::ExitCode;

use anyhow::Context;

use super::{boot, local_http};
use crate::domain::{Clock, SystemClock};
use crate::store::{self, backfill};

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
    if !arguments.check {
        anyhow::ensure!(
            loaded.settings.manychat.api_token.is_some(),
            "tokens backfill writes tokens through ManyChat: set MANYCHAT_API_TOKEN"
        );
        anyhow::bail!("tokens backfill: this version issues no contact tokens yet; --check works");
    }
    let database = boot::open_database(&loaded.settings)?;
    let days = loaded.tenant.rules.history_days;
    let missing = local_http::block_on(async {
        let client = store::connect(&database.address).await.context("DATABASE_URL")?;
        let now = SystemClock.now();
        Ok(backfill::contacts_without_token(&client, &loaded.settings.tenant, days, now).await?)
    })?;
    println!("contacts without a token among those of the last {days} days: {missing}");
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
