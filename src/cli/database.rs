//! The frame of the commands that work on the database and print a result (06 section 7.1): the configuration first,
//! one connection, no migration (MIG-8).

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context;
use tokio_postgres::Client;

use super::boot::{self, Loaded, OpenDatabase};
use super::local_http;
use crate::store::{self, migrations};

/// Checks the configuration (CLI-4), connects, and runs the command.
pub(super) fn run(
    work: impl AsyncFnOnce(&Loaded, &mut Client) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let loaded = boot::load()?;
    let database = boot::share_database(&loaded.settings)?;
    local_http::block_on(async {
        let mut client = connect(&database).await?;
        work(&loaded, &mut client).await
    })
}

/// As [`run`], with a second connection for a command that holds something on it meanwhile.
pub(super) fn run_with_two(
    work: impl AsyncFnOnce(&Loaded, &mut Client, &mut Client) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let loaded = boot::load()?;
    let database = boot::share_database(&loaded.settings)?;
    local_http::block_on(async {
        let mut client = connect(&database).await?;
        let mut other = connect(&database).await?;
        work(&loaded, &mut client, &mut other).await
    })
}

/// A connection to a database that the service could use, too.
pub(super) async fn connect(database: &OpenDatabase) -> anyhow::Result<Client> {
    let client = store::connect(&database.address).await.context("DATABASE_URL")?;
    migrations::check_encoding(&client).await.context("DATABASE_URL")?;
    Ok(client)
}

/// Prints a result. A reader that has seen enough, such as `head`, is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("the result could not be written")
        }
        _ => Ok(()),
    }
}

/// A pretty JSON value with a line break at its end.
pub(super) fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Lines with aligned columns; the first row is the heading.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Says that a list may go on behind its last row.
pub(super) fn report_limit(shown: usize, limit: i64) {
    if i64::try_from(shown).is_ok_and(|shown| shown >= limit) {
        eprintln!("only the oldest {limit} are shown: raise --limit to see more");
    }
}

/// A span as a person reads it: `45s`, `12m`, `3h 20m`, `4d 2h`.
pub(super) fn span(seconds: f64) -> String {
    // A negative or absurd number ends at the type's edge, which is as good as any answer.
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator reads ages at a glance.
    #[test]
    fn spans_are_short() {
        let spans = [0.4, 59.0, 60.0, 3599.0, 12_000.0, 353_000.0, -5.0].map(span);
        assert_eq!(spans, ["0s", "59s", "1m", "59m", "3h 20m", "4d 2h", "0s"]);
    }

    /// Columns line up and no line ends in blanks.
    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["ID", "AGE"], vec!["long-one", "3s"], vec!["b", ""]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(table(&rows), "ID        AGE\nlong-one  3s\nb\n");
    }
}
