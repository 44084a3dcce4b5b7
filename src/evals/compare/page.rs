//! The comparison as one HTML page that needs nothing else: every reply side by side, for whoever reads the tone.
//! Everything that comes from a report is escaped; the page's own policy lets no other script or style run.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use super::words::{Piece, difference};
use super::{CasePair, Change, Comparison};
use crate::domain::Role;
use crate::evals::json::{CaseReport, Report, VerdictReport};
use crate::evals::judge::Verdict;
use crate::evals::outcome::Status;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
#[must_use]
pub fn page(comparison: &Comparison<'_>) -> String {
    let cases: String = comparison.cases.iter().map(case).collect();
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        source_hash(STYLE),
        source_hash(SCRIPT)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Replies side by side</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{}{}\
         <main id=\"cases\">\n{cases}</main>\n<p id=\"nothing\" hidden>No case fits. \
         <button type=\"button\" id=\"reset\">Show all cases</button></p>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        top(comparison),
        toolbar(comparison),
    )
}

/// As a content security policy names an inline source.
fn source_hash(source: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(source.as_bytes())))
}

fn top(comparison: &Comparison<'_>) -> String {
    let (before, after) = (comparison.before, comparison.after);
    let note = if before.suite_hash == after.suite_hash {
        String::new()
    } else {
        "<p class=\"note\">The suite was changed between the two runs: some cases may differ because their text \
         does.</p>\n"
            .to_owned()
    };
    format!(
        "<header>\n<h1>Replies side by side</h1>\n{note}<div class=\"pair\">\n{}{}</div>\n</header>\n",
        side("Before", before),
        side("After", after)
    )
}

fn side(label: &str, report: &Report) -> String {
    let totals = &report.totals;
    let figures = [
        (totals.passed + totals.judged_pass, "passed", "good"),
        (totals.failing(), "failed", if totals.failing() > 0 { "bad" } else { "" }),
        (totals.reviewed, "to review", ""),
    ];
    let figures: String = figures
        .iter()
        .map(|(count, word, class)| format!("<span class=\"{class}\"><b>{count}</b> {word}</span>"))
        .collect();
    format!(
        "<section class=\"side\"><h2>{label}</h2><p class=\"model\">{}</p><p class=\"figures\">{figures}\
         <span>p95 <b>{} ms</b></span><span>cost <b>${:.4}</b></span></p>\
         <p class=\"suite\">{}, suite {}</p></section>\n",
        escaped(&report.model),
        totals.p95_ms,
        totals.cost_usd,
        escaped(&report.suite),
        escaped(report.suite_hash.get(..12).unwrap_or(&report.suite_hash)),
    )
}

/// Filters with their counts; the first that has something to show is a change.
fn toolbar(comparison: &Comparison<'_>) -> String {
    let filters = [
        ("all", "All"),
        ("changed", "Changed"),
        ("regression", "Newly failing"),
        ("mended", "Mended"),
        ("failing", "Failing"),
        ("review", "To review"),
    ];
    let buttons: String = filters
        .iter()
        .map(|(name, label)| {
            let count = comparison.cases.iter().filter(|pair| kinds(pair).contains(name)).count();
            format!(
                "<button type=\"button\" data-filter=\"{name}\" aria-pressed=\"{}\">{label} <span>{count}</span>\
                 </button>",
                *name == "all"
            )
        })
        .collect();
    format!(
        "<nav id=\"toolbar\" aria-label=\"Filter\">\n<div class=\"filters\">{buttons}</div>\n\
         <label class=\"search\"><span>Search</span><input id=\"search\" type=\"search\" \
         placeholder=\"id, message or reply\"></label>\n<output id=\"count\"></output>\n</nav>\n"
    )
}

/// What the filters know of a case.
fn kinds(pair: &CasePair<'_>) -> Vec<&'static str> {
    let status = |wanted: fn(Status) -> bool| pair.after.is_some_and(|case| wanted(case.status));
    let found = [
        (true, "all"),
        (!pair.changes().is_empty(), "changed"),
        (pair.is_regression(), "regression"),
        (pair.is_mended(), "mended"),
        (status(Status::fails_the_run), "failing"),
        (status(|status| status == Status::Reviewed), "review"),
    ];
    found.into_iter().filter_map(|(is, name)| is.then_some(name)).collect()
}

fn case(pair: &CasePair<'_>) -> String {
    let asked = pair.after.or(pair.before);
    let mut html = format!(
        "<article data-kinds=\"{}\">\n<div class=\"head\"><h3>{}</h3>{}{}</div>\n",
        kinds(pair).join(" "),
        escaped(pair.id),
        statuses(pair),
        changes(pair)
    );
    html += &asked.map(conversation).unwrap_or_default();
    let empty = Vec::new();
    let said = |case: Option<&CaseReport>| case.map_or(empty.clone(), |case| case.messages.clone());
    let (old, new) = (said(pair.before), said(pair.after));
    let _ = writeln!(
        html,
        "<div class=\"pair\">{}{}</div>",
        reply("Before", pair.before, &messages(&old, &new, Piece::Gone)),
        reply("After", pair.after, &messages(&old, &new, Piece::New))
    );
    html + "</article>\n"
}

fn statuses(pair: &CasePair<'_>) -> String {
    let badge = |case: Option<&CaseReport>| {
        case.map_or("<span class=\"badge none\">none</span>".to_owned(), |case| {
            let class = match case.status {
                Status::Passed | Status::JudgedPass => "good",
                Status::Failed | Status::JudgedFail => "bad",
                Status::Reviewed => "read",
            };
            format!("<span class=\"badge {class}\">{}</span>", case.status.as_str())
        })
    };
    let same = pair.before.map(|case| case.status) == pair.after.map(|case| case.status);
    match same {
        true => badge(pair.after),
        false => {
            let (before, after) = (badge(pair.before), badge(pair.after));
            format!("<span class=\"turned\">{before} → {after}</span>")
        }
    }
}

/// The changes that the badges and the replies do not show by themselves.
fn changes(pair: &CasePair<'_>) -> String {
    let shown = pair.changes().into_iter().filter(|change| *change != Change::Status);
    let tags: String = shown
        .map(|change| {
            format!("<span class=\"tag\">{}</span>", escaped(&pair.word(change).replace("->", "→")))
        })
        .collect();
    if tags.is_empty() { tags } else { format!("<span class=\"tags\">{tags}</span>") }
}

/// What the reply answers: history, message, and what a person should look at.
fn conversation(case: &CaseReport) -> String {
    let mut html = String::new();
    if !case.history.is_empty() {
        let turns: String = case
            .history
            .iter()
            .map(|turn| {
                let class = if turn.role == Role::User { "theirs" } else { "ours" };
                format!("<p class=\"bubble {class}\">{}</p>", escaped(&turn.text))
            })
            .collect();
        let count = case.history.len();
        let noun = if count == 1 { "turn" } else { "turns" };
        html += &format!("<details><summary>{count} earlier {noun}</summary>{turns}</details>\n");
    }
    html += &match case.text.as_str() {
        "" => "<p class=\"quiet\">The contact has gone quiet.</p>\n".to_owned(),
        text => format!("<p class=\"bubble theirs\">{}</p>\n", escaped(text)),
    };
    if let Some(criterion) = &case.review {
        html += &format!("<p class=\"criterion\"><b>Read for</b> {}</p>\n", escaped(criterion));
    }
    html
}

fn reply(label: &str, case: Option<&CaseReport>, messages: &str) -> String {
    let Some(case) = case else {
        return format!("<section><h4>{label}</h4><p class=\"quiet\">Not in this report.</p></section>");
    };
    let handoff = case.reason.map_or(String::new(), |reason| {
        format!("<p class=\"handoff\">calls a person: {}</p>", escaped(reason.as_str()))
    });
    let failures: String = case
        .failures
        .iter()
        .map(|failure| format!("<li class=\"bad\">{}</li>", escaped(&failure.message)))
        .collect();
    let notes = [("guardrails", &case.interventions), ("actions", &case.actions)];
    let notes: String = notes
        .iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("<li><b>{name}</b> {}</li>", escaped(&list.join(", "))))
        .collect();
    let judged: String = case.judged.iter().filter_map(verdict).collect();
    let list = format!("{failures}{judged}{notes}");
    let list = if list.is_empty() { list } else { format!("<ul>{list}</ul>") };
    format!(
        "<section><h4>{label} <span>{} ms · ${:.4}</span></h4>{messages}{handoff}{list}</section>",
        case.latency_ms, case.cost_usd
    )
}

/// What a judge holds against a reply (JUDGE-31).
fn verdict(judged: &VerdictReport) -> Option<String> {
    let Verdict::Fail { split, reason, evidence } = &judged.verdict else { return None };
    let split = if *split { " (split)" } else { "" };
    let said = format!("{}{split}: {reason} “{evidence}”", judged.criterion);
    Some(format!("<li class=\"bad\">{}</li>", escaped(&said)))
}

/// One side's messages, the words that the other side lacks marked.
fn messages(old: &[String], new: &[String], side: Piece) -> String {
    let empty = String::new();
    let own = if side == Piece::Gone { old } else { new };
    let mut html = String::new();
    for index in 0..own.len() {
        let (before, after) = (old.get(index).unwrap_or(&empty), new.get(index).unwrap_or(&empty));
        html += "<p class=\"bubble ours\">";
        for (piece, text) in runs(&difference(before, after), side) {
            html += &match piece {
                Piece::Same => escaped(&text),
                Piece::Gone => format!("<del>{}</del>", escaped(&text)),
                Piece::New => format!("<ins>{}</ins>", escaped(&text)),
            };
        }
        html += "</p>";
    }
    html
}

/// What one side shows of a difference, neighbours of one kind together. White space between two marks is marked with
/// them: a phrase reads better than its words.
fn runs(found: &[(Piece, &str)], side: Piece) -> Vec<(Piece, String)> {
    let mut runs: Vec<(Piece, String)> = Vec::new();
    let mut own = found.iter().filter(|(piece, _)| *piece == side || *piece == Piece::Same).peekable();
    while let Some((piece, text)) = own.next() {
        let last = runs.last().map(|(last, _)| *last);
        let between =
            text.trim().is_empty() && last == Some(side) && own.peek().is_some_and(|(next, _)| *next == side);
        let piece = if between { side } else { *piece };
        match runs.last_mut() {
            Some((last, run)) if *last == piece => run.push_str(text),
            _ => runs.push((piece, (*text).to_owned())),
        }
    }
    runs
}

/// Text as text, in an element or in a quoted attribute. Marks that turn the reading direction, and control characters,
/// are shown as what they are, so that a reply cannot disguise itself.
fn escaped(text: &str) -> String {
    let text = crate::domain::visible_lines(text);
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
