//! `agent handoffs list` and `agent handoffs close`: who waits for a person, and saying that a person was there
//! (DEC-25). By conversation; the contact's id is only ever read from the command line, never printed.

use std::process::ExitCode;

use serde_json::{Value, json};
use uuid::Uuid;

use super::database;
use crate::domain::SubscriberId;
use crate::store::handoffs::{self, Closed, Closing, HandoffRow, TagNote, Target};

/// Arguments of `list`.
#[derive(clap::Args, Debug)]
pub(super) struct ListArguments {
    /// Show the closed ones too
    #[arg(long)]
    all: bool,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    /// Most handoffs to show, the oldest first
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

/// Arguments of `close`.
#[derive(clap::Args, Debug)]
#[group(id = "which", required = true, multiple = false, args = ["ids", "subscriber"])]
pub(super) struct CloseArguments {
    /// Ids of handoffs, or of conversations to close all of each
    #[arg(value_parser = super::id)]
    ids: Vec<Uuid>,
    /// The ManyChat contact whose handoffs to close
    #[arg(long, value_name = "ID")]
    subscriber: Option<String>,
}

/// Prints the open handoffs, oldest first.
pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let rows = handoffs::list(client, &loaded.settings.tenant, arguments.all, arguments.limit).await?;
        match (arguments.json, rows.is_empty()) {
            (true, _) => database::print_json(&Value::Array(rows.iter().map(as_json).collect()))?,
            (false, true) => database::print("no open handoffs\n")?,
            (false, false) => database::print(&as_table(&rows))?,
        }
        database::report_limit(rows.len(), arguments.limit);
        Ok(ExitCode::SUCCESS)
    })
}

/// Closes what was named; exit 1 when there was nothing to close for one of them.
pub(super) fn close(arguments: &CloseArguments) -> anyhow::Result<ExitCode> {
    database::run(async |loaded, client| {
        let settings = &loaded.settings;
        let (mut code, mut tags) = (ExitCode::SUCCESS, false);
        for (name, target) in targets_of(arguments) {
            match handoffs::close(client, &settings.tenant, &target).await? {
                Closing::Closed(closed) => {
                    tags |= closed.iter().any(|handoff| handoff.tag.is_some());
                    database::print(&closed.iter().map(closed_line).collect::<String>())?;
                    continue;
                }
                Closing::NothingOpen => eprintln!("nothing to close: {name} has no open handoff"),
                Closing::Unknown => eprintln!(
                    "nothing to close: this tenant has no such handoff, conversation or contact as {name}"
                ),
            }
            code = ExitCode::FAILURE;
        }
        let dead = settings.process_dead.as_secs_f64();
        if tags && handoffs::processes_alive(client, &settings.tenant, dead).await? == 0 {
            eprintln!("no `agent serve` or `agent worker` is running: the tag is removed when one starts");
        }
        Ok(code)
    })
}

/// What to close, under the name that is printed; an id twice is one. clap demands at least one.
fn targets_of(arguments: &CloseArguments) -> Vec<(String, Target)> {
    let subscriber = arguments
        .subscriber
        .as_deref()
        .map(|id| ("this contact".to_owned(), Target::Subscriber(SubscriberId::stored(id))));
    let mut ids: Vec<Uuid> = Vec::new();
    for id in &arguments.ids {
        if !ids.contains(id) {
            ids.push(*id);
        }
    }
    ids.into_iter().map(|id| (id.to_string(), Target::Id(id))).chain(subscriber).collect()
}

fn closed_line(closed: &Closed) -> String {
    let tag = match &closed.tag {
        Some(tag) => {
            format!("; the service removes the tag `{tag}` when none of this contact is open any longer")
        }
        None => String::new(),
    };
    format!("closed {} of conversation {}{tag}\n", closed.id, closed.conversation)
}

fn as_table(rows: &[HandoffRow]) -> String {
    let heading = ["ID", "CONVERSATION", "REASON", "OPENED", "AGE", "PERSON CALLED", "CLOSED"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        vec![
            row.id.to_string(),
            row.conversation.to_string(),
            row.reason.clone(),
            format!("{:.0}", row.opened_at),
            database::span(row.age_secs),
            called(&row.tag),
            row.closed_by.clone().unwrap_or_default(),
        ]
    }));
    database::table(&lines)
}

/// What became of the tag, in a word.
fn called(tag: &TagNote) -> String {
    let word = match tag.state.as_deref() {
        None => "no",
        Some("attempting") => "just now",
        Some("added") => "yes",
        Some("unknown") => "perhaps",
        Some("expired") => "no, too old",
        Some(_) => "no, failed",
    };
    match &tag.error {
        Some(error) => format!("{word} ({error})"),
        None => word.to_owned(),
    }
}

fn as_json(row: &HandoffRow) -> Value {
    json!({
        "id": row.id,
        "conversation": row.conversation.as_uuid(),
        "reason": row.reason,
        "opened_at": row.opened_at.to_string(),
        "age_seconds": row.age_secs.round(),
        "closed_at": row.closed_at.map(|at| at.to_string()),
        "closed_by": row.closed_by,
        "tag": row.tag.name,
        "tag_state": row.tag.state,
        "tag_removal": row.tag.removal,
        "tag_error": row.tag.error,
    })
}
