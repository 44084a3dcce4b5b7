//! The log lines of a turn: how its reply came about, and what it came to (LOG-5, LOG-7, TURN-17).

use serde_json::Value;

use super::answers::Delivery;
use super::draft::{Decision, Draft};
use super::request::TurnRequest;
use crate::domain::{MediaKind, Outcome};
use crate::model::TurnResult;
use crate::store::open::OpenTurn;

/// The lines about how the reply came about (LOG-5, LOG-7).
pub(super) fn report_decision(request: &TurnRequest, opened: &OpenTurn, draft: &Draft, deferred: bool) {
    let conversation = opened.conversation;
    match &draft.decision {
        Decision::Scripted => {
            tracing::info!(%conversation, outcome = Outcome::AnsweredScripted.as_str(), "scripted opening sent");
        }
        Decision::Denied(denial) => tracing::info!(
            %conversation,
            reason = denial.reason.as_str(),
            detail = denial.detail.as_str(),
            "turn escalated before model"
        ),
        Decision::UnreadableMedia => {
            let media = request.media_kind().map(MediaKind::as_str);
            tracing::info!(%conversation, media, reason = "not_supported", "media fallback");
        }
        Decision::Recovered => {
            tracing::warn!(%conversation, "message of a dead process handed to a person");
        }
        Decision::Aborted { .. } => {
            tracing::error!(%conversation, err = "aborted", "deferred model call failed")
        }
        Decision::Model(result) => {
            report_model(opened, result, deferred);
            report_ungrounded(request, opened, draft.ungrounded);
        }
    }
}

fn report_model(opened: &OpenTurn, result: &TurnResult, deferred: bool) {
    let conversation = opened.conversation;
    if let Some(error) = &result.error {
        let (err, detail) = (error.as_str(), result.error_detail.as_deref());
        if deferred {
            tracing::error!(%conversation, err, detail, "deferred model call failed");
        } else {
            tracing::error!(%conversation, err, detail, "model call failed");
        }
    }
    if !result.interventions.is_empty() {
        let list = Value::from_iter(result.interventions.iter().map(ToString::to_string)).to_string();
        tracing::info!(%conversation, json.interventions = list.as_str(), deferred = deferred.then_some(true), "guardrails intervened");
    }
}

/// A count and no word: the figure itself could be anything (FN-PRICE-2, LOG-9).
fn report_ungrounded(request: &TurnRequest, opened: &OpenTurn, ungrounded: usize) {
    if ungrounded > 0 {
        let conversation = opened.conversation;
        tracing::warn!(turn = %request.id, %conversation, ungrounded, "reply names a price that nobody published");
    }
}

/// A long reply that goes on after its response (GAP-CH-11).
pub(super) fn report_rest(opened: &OpenTurn, delivery: &Delivery) {
    if !delivery.rest.is_empty() {
        tracing::info!(
            conversation = %opened.conversation,
            texts = delivery.rest.len(),
            path = "outbox",
            "reply continues after its response"
        );
    }
}

pub(super) fn report_turn(opened: &OpenTurn, draft: &Draft, outcome: Outcome, silent: bool) {
    tracing::info!(
        conversation = %opened.conversation,
        outcome = outcome.as_str(),
        binding = opened.binding.as_str(),
        escalated = draft.reply.escalate,
        silent = silent.then_some(true),
        "turn complete"
    );
}
