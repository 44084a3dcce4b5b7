//! `agent outbox list`, `show`, `retry`, `discard`: what is queued or dead, and mending it without SQL (GAP-DL-10).
//! Nothing of a contact is printed: no text, no contact's id, no payload.

use std::process::ExitCode;

use serde_json::{Value, json};
use uuid::Uuid;

use super::database;
use crate::store::outbox_operator::{self as outbox, Changed, OutboxRow, State, Which};

/// The states as an operator types them.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StateWord {
    /// Waits for its time
    Pending,
    /// Is being delivered
    Delivering,
    /// Every text is out
    Delivered,
    /// Given up, waits for your decision
    Dead,
    /// Never to be sent
    Discarded,
}

/// Arguments of `list`.
#[derive(clap::Args, Debug)]
pub(super) struct ListArguments {
    /// Only rows in this state; may stand several times. Without it: pending, delivering and dead
    #[arg(long, value_name = "STATE")]
    state: Vec<StateWord>,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    /// Most rows to show, the oldest first
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

/// Arguments of `show`.
#[derive(clap::Args, Debug)]
pub(super) struct ShowArguments {
    /// The row's id
    #[arg(value_parser = super::id)]
    id: Uuid,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `retry` and `discard`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("rows").args(["ids", "all_dead"]).required(true))]
pub(super) struct ChangeArguments {
    /// Ids of dead rows
    #[arg(value_parser = super::id)]
    ids: Vec<Uuid>,
    /// Every dead row
    #[arg(long)]
    all_dead: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl StateWord {
    const fn state(self) -> State {
        match self {
            Self::Pending => State::Pending,
            Self::Delivering => State::Delivering,
            Self::Delivered => State::Delivered,
            Self::Dead => State::Dead,
            Self::Discarded => State::Discarded,
        }
    }
}

/// Prints what is queued or dead, oldest first.
pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let states: Vec<State> = match arguments.state.as_slice() {
        [] => vec![State::Pending, State::Delivering, State::Dead],
        words => words.iter().map(|word| word.state()).collect(),
    };
    database::run(async |loaded, client| {
        let rows = outbox::list(client, &loaded.settings.tenant, &states, arguments.limit).await?;
        match (arguments.json, rows.is_empty()) {
            (true, _) => database::print_json(&Value::Array(rows.iter().map(as_json).collect()))?,
            (false, true) => database::print("nothing in these states\n")?,
            (false, false) => database::print(&as_table(&rows))?,
        }
        database::report_limit(rows.len(), arguments.limit);
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints one row; exit 1 when the tenant has none with this id.
pub(super) fn show(arguments: &ShowArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let row = outbox::show(client, &loaded.settings.tenant, arguments.id).await?;
        let Some(row) = row else { anyhow::bail!("this tenant's outbox has no row {}", arguments.id) };
        match arguments.json {
            true => database::print_json(&as_json(&row))?,
            false => database::print(&as_lines(&row))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Makes dead rows pending again.
pub(super) fn retry(arguments: &ChangeArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let changed = outbox::retry(client, &loaded.settings.tenant, &which(arguments)).await?;
        report(arguments, "retried", &changed)
    })
}

/// Decides that dead rows are never sent.
pub(super) fn discard(arguments: &ChangeArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let changed = outbox::discard(client, &loaded.settings.tenant, &which(arguments)).await?;
        report(arguments, "discarded", &changed)
    })
}

fn which(arguments: &ChangeArguments) -> Which {
    if arguments.all_dead { Which::AllDead } else { Which::Ids(arguments.ids.clone()) }
}

/// Names every row; exit 1 when one of those asked for was not changed.
fn report(arguments: &ChangeArguments, done: &str, changed: &Changed) -> anyhow::Result<ExitCode> {
    if arguments.json {
        let refused =
            changed.refused.iter().map(|(id, state)| json!({ "id": id, "state": state.map(State::as_str) }));
        database::print_json(&json!({ done: changed.done, "refused": refused.collect::<Vec<_>>() }))?;
    } else {
        let lines: String = changed.done.iter().map(|id| format!("{done} {id}\n")).collect();
        database::print(if lines.is_empty() { "no row was changed\n" } else { &lines })?;
    }
    for (id, state) in &changed.refused {
        match state {
            Some(state) => eprintln!("{id} is {}, not dead: left as it is", state.as_str()),
            None => eprintln!("this tenant's outbox has no row {id}"),
        }
    }
    Ok(if changed.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_table(rows: &[OutboxRow]) -> String {
    let heading = ["ID", "KIND", "STATE", "AGE", "ATTEMPTS", "TEXTS", "LAST ERROR"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        vec![
            row.id.to_string(),
            row.kind.clone(),
            row.state.as_str().to_owned(),
            database::span(row.age_secs),
            row.attempts.to_string(),
            texts(row),
            last_error(row).unwrap_or_default(),
        ]
    }));
    database::table(&lines)
}

/// How many texts of how many are out.
fn texts(row: &OutboxRow) -> String {
    if row.lengths.is_empty() { String::new() } else { format!("{}/{}", row.sent, row.lengths.len()) }
}

/// The class of the last error; of a reply that was given up half out also how much the contact has got.
fn last_error(row: &OutboxRow) -> Option<String> {
    let error = row.error.as_deref()?;
    let given_up = matches!(row.state, State::Dead | State::Discarded);
    Some(match (given_up, row.sent, row.lengths.len()) {
        (true, 1.., texts) if texts > 0 => format!("{error}, after {} of {texts} texts", row.sent),
        _ => error.to_owned(),
    })
}

fn as_lines(row: &OutboxRow) -> String {
    let due = match row.state {
        State::Pending if row.due_in_secs > 0.0 => format!("in {}", database::span(row.due_in_secs)),
        State::Pending => "now".to_owned(),
        _ => "-".to_owned(),
    };
    let conversation = row.conversation.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let lengths: Vec<String> = row.lengths.iter().map(ToString::to_string).collect();
    let lines = [
        ("id", row.id.to_string()),
        ("kind", row.kind.clone()),
        ("state", row.state.as_str().to_owned()),
        ("conversation", conversation),
        ("written", format!("{:.0} ({} ago)", row.created_at, database::span(row.age_secs))),
        ("due", due),
        ("attempts", row.attempts.to_string()),
        ("texts out", texts(row)),
        ("characters", lengths.join(", ")),
        ("actions", if row.actions.is_empty() { "-".to_owned() } else { row.actions.join(", ") }),
        ("last error", last_error(row).unwrap_or_else(|| "-".to_owned())),
    ];
    lines.iter().map(|(name, value)| format!("{name:13}{value}\n")).collect()
}

fn as_json(row: &OutboxRow) -> Value {
    json!({
        "id": row.id,
        "kind": row.kind,
        "state": row.state.as_str(),
        "conversation": row.conversation.map(|id| *id.as_uuid()),
        "created_at": row.created_at.to_string(),
        "delivered_at": row.delivered_at.map(|at| at.to_string()),
        "age_seconds": row.age_secs.round(),
        "due_in_seconds": (row.state == State::Pending).then(|| row.due_in_secs.round()),
        "attempts": row.attempts,
        "texts": row.lengths.len(),
        "texts_sent": row.sent,
        "lengths": row.lengths,
        "actions": row.actions,
        "last_error": row.error,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        change: ChangeArguments,
    }

    /// GAP-DL-10, CLI-6: `--json` says how the result is printed and nothing about which rows; without either way to name
    /// rows, and with both, the use is wrong.
    #[test]
    fn json_goes_with_ids_and_with_all_dead() {
        const ID: &str = "00000000-0000-4000-8000-000000000001";
        let read = |words: &[&str]| Line::try_parse_from([&["change"][..], words].concat());
        for words in [&[ID][..], &["--json", ID], &[ID, ID, "--json"]] {
            let change = read(words).unwrap().change;
            assert_eq!(change.json, words.contains(&"--json"), "{words:?}");
            assert!(matches!(which(&change), Which::Ids(ids) if !ids.is_empty()), "{words:?}");
        }
        for words in [&["--all-dead"][..], &["--all-dead", "--json"]] {
            assert!(matches!(which(&read(words).unwrap().change), Which::AllDead), "{words:?}");
        }
        for words in [&[][..], &["--json"], &["--all-dead", ID], &["--json", "--all-dead", ID]] {
            let refused = read(words).unwrap_err().to_string();
            assert!(refused.contains("<IDS|--all-dead>"), "both ways are named for {words:?}: {refused}");
        }
    }
}
