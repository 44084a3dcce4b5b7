//! The HTTP client of the commands that talk to a server.

use std::time::Duration;

use anyhow::Context;

/// A client with a time limit. A plain `http://` address needs no certificates, and an image may have none.
pub(super) fn client(address: &str, limit: Duration) -> anyhow::Result<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(limit).no_proxy();
    let builder = if address.starts_with("http://") { builder.tls_certs_only([]) } else { builder };
    builder.build().context("the HTTP client could not be made")
}

/// Runs one piece of async work to its end.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
