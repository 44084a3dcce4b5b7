//! Warnings about files that load: what the reference lets pass and an operator most likely did not mean.

use super::PROMPT_FILE;
use super::check::Report;
use super::parsers::repeated;
use crate::config::{CARRIES_OUT_FOLLOW_UPS, Catalog, FlowRole, Price, Rules, SENDS_OPENING, Tools, Warning};
use crate::domain::decimals_of;

/// What the reference prints of every amount (PROMPT-9).
const DECIMALS_OF_THE_REFERENCE: u8 = 2;

/// CAT-4 and GAP-CFG-2.
pub(super) fn catalog_hints(catalog: &Catalog, report: &mut Report) {
    for id in repeated(catalog.offerings.iter().map(|offering| offering.id.as_str())) {
        report.warn("offerings", format!("the id `{id}` occurs more than once"));
    }
    for (position, offering) in catalog.offerings.iter().enumerate() {
        if offering.price.currency != catalog.currency {
            let path = format!("offerings.{position}.price.currency");
            report.warn(
                &path,
                format!("is {}, the catalog's currency is {}", offering.price.currency, catalog.currency),
            );
        }
        let scheme = offering.url.as_deref().and_then(|url| url::Url::parse(url).ok());
        if scheme.is_some_and(|url| !matches!(url.scheme(), "http" | "https")) {
            report.warn(
                &format!("offerings.{position}.url"),
                "is neither http nor https, a contact cannot open it",
            );
        }
    }
    minor_units_hint(catalog, report);
}

/// DEC-1: the reference divides every amount by a hundred, also where the currency has no hundredths. A file that was
/// written for it then names other prices here, so each such currency is told once, with both.
fn minor_units_hint(catalog: &Catalog, report: &mut Report) {
    let mut told: Vec<String> = Vec::new();
    for (position, offering) in catalog.offerings.iter().enumerate() {
        let Price { amount, currency } = &offering.price;
        let (decimals, code) = (decimals_of(currency), currency.to_ascii_uppercase());
        if decimals == DECIMALS_OF_THE_REFERENCE || amount.get() == 0 || told.contains(&code) {
            continue;
        }
        let same = amount.get().saturating_mul(10_u64.pow(u32::from(decimals))) / 100;
        report.warn(
            &format!("offerings.{position}.price.amount"),
            format!(
                "{} {currency} is said as {}; the service that this one replaces said {}: it gave every currency two \
                 decimals, {code} has {decimals}. If that was your price, write {same}, and look at each amount in {code}",
                amount.get(),
                amount.printed(currency),
                amount.printed_with(DECIMALS_OF_THE_REFERENCE, currency),
            ),
        );
        told.push(code);
    }
}

/// RUL-6, and the same for the words of the scripted opening.
pub(super) fn rules_hints(rules: &Rules, report: &mut Report) {
    let blank = |keyword: &str| keyword.trim().is_empty();
    for (position, _) in rules.escalation_keywords.iter().enumerate().filter(|(_, keyword)| blank(keyword)) {
        report.warn(&format!("escalationKeywords.{position}"), "is blank and is ignored");
    }
    let opening = rules.opening_trigger.iter().flat_map(|opening| &opening.keywords).enumerate();
    for (position, _) in opening.filter(|(_, keyword)| blank(keyword)) {
        report.warn(&format!("openingTrigger.keywords.{position}"), "is blank, no message matches it");
    }
    blank_messages(rules, report);
    takeover_hint(rules, report);
}

/// LOAD-16 lets a text of blanks pass; a contact would get an empty bubble.
fn blank_messages(rules: &Rules, report: &mut Report) {
    let messages = &rules.messages;
    let opening = rules.opening_trigger.as_ref().map(|opening| &opening.message);
    let texts = [
        ("messages.acknowledgement", Some(&messages.acknowledgement)),
        ("messages.escalation", Some(&messages.escalation)),
        ("messages.mediaFallback", messages.media_fallback.as_ref()),
        ("messages.closer", messages.closer.as_ref()),
        ("openingTrigger.message", opening),
    ];
    for (path, _) in texts.iter().filter(|(_, text)| text.is_some_and(|text| text.trim().is_empty())) {
        report.warn(path, "is blank: the contact would get an empty message");
    }
}

/// DEC-9: a contact without the tag ends the takeover, so something has to set it at the handoff.
fn takeover_hint(rules: &Rules, report: &mut Report) {
    let waits = rules.takeover.as_ref().and_then(|takeover| takeover.tag.as_deref());
    let calls = rules.handoff.as_ref().map(|handoff| handoff.tag.as_str());
    if waits.is_some() && waits != calls {
        report.warn(
            "takeover.tag",
            "is not handoff.tag: unless ManyChat sets it at every handoff, the contact's next message finds it \
             missing and the agent answers",
        );
    }
}

/// 10 section 16, point 9: allowed by FN-CHK-30 and rarely meant.
pub(super) fn tools_hints(tools: &Tools, report: &mut Report) {
    let payment_link = tools.flows.iter().find(|flow| flow.role == Some(FlowRole::PaymentLink));
    if payment_link.is_none() && tools.funnel_field().is_some() {
        report.warn("flows", "no flow has the role payment_link, so no contact ever reaches link_sent");
    }
    if let Some(flow) = payment_link.filter(|flow| !flow.repeatable) {
        report.warn(
            "flows",
            format!("the payment link `{}` is not repeatable: each contact gets it once", flow.id),
        );
    }
    for flow_ns in repeated(tools.flows.iter().map(|flow| flow.flow_ns.as_str())) {
        let sharing = tools.flows.iter().filter(|flow| flow.flow_ns == flow_ns).map(|flow| flow.id.as_str());
        let ids = sharing.collect::<Vec<_>>().join(", ");
        report.warn("flows", format!("{ids} have the same flowNs: they send the same content"));
    }
}

/// What is configured and waits for a later version. The files are right, so they load.
pub(super) fn later_versions(tools: &Tools, report: &mut Report) {
    if tools.nudge.is_some() && !CARRIES_OUT_FOLLOW_UPS {
        report.warn(
            "nudge",
            "is not carried out yet: the agent is not offered schedule_nudge, no follow-up goes out",
        );
    }
    if let Some(flow) = tools.flows.iter().find(|flow| flow.role == Some(FlowRole::Opening) && !SENDS_OPENING)
    {
        report.warn(
            "flows",
            format!("the opening `{}` is not sent yet: greet in the prompt until then", flow.id),
        );
    }
}

/// PRM-3.
pub(in crate::config) fn prompt_hints(prompt: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if prompt.trim().is_empty() {
        warnings.push(Warning::new(PROMPT_FILE, "is blank: the agent has no persona"));
    }
    if prompt.contains("{{") {
        let text = "contains {{, which reaches the model as it stands: write the value instead";
        warnings.push(Warning::new(PROMPT_FILE, text));
    }
    warnings
}
