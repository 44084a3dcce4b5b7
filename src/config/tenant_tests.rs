use serde_json::json;

use super::*;
use crate::config::test_dir::TestDir;
use crate::config::test_files::{Files, assert_loads, assert_refused};
use crate::config::{Burst, demo, files::every_key};
use crate::domain::Stage;

fn demo_dir() -> TestDir {
    let dir = TestDir::new();
    dir.write("prompt.md", "Persona\n");
    dir.write("catalog.json", demo::CATALOG);
    dir.write("rules.json", demo::RULES);
    dir.write("tools.json", demo::TOOLS);
    dir
}

fn load(dir: &TestDir) -> Result<(Tenant, Vec<Warning>), TenantError> {
    Tenant::load(dir.path(), &ReservedNames::default())
}

fn refusal(dir: &TestDir) -> String {
    let message = load(dir).unwrap_err().to_string();
    assert!(message.starts_with(&format!("invalid config ({}): ", dir.path().display())), "{message}");
    message
}

#[path = "tenant_file_tests.rs"]
mod files;

/// ACC-CFG-3, CAT-1, LOAD-13, LOAD-17
#[test]
fn prices_are_whole_minor_units() {
    for refused in [json!(450.5), json!(-1), json!("45000"), json!(9_007_199_254_740_992_u64), json!(null)] {
        assert_refused("catalog.offerings.0.price.amount", refused, &["offerings.0.price.amount"]);
    }
    let tenant = assert_loads("catalog.offerings.0.price.amount", json!(45000.0));
    assert_eq!(tenant.catalog.offerings[0].price.amount.get(), 45_000);
    assert_loads("catalog.offerings.0.price.amount", json!(0));
}

/// CAT-2, CAT-3 and the other rules of section 4.
#[test]
fn catalog_fields_follow_their_rules() {
    assert_refused("catalog.offerings", json!([]), &["  offerings: "]);
    assert_refused(
        "catalog.paymentOptions.1.id",
        json!("instalments"),
        &["  paymentOptions: ", "`instalments`"],
    );
    assert_refused("catalog.paymentOptions.0.description", json!(""), &["paymentOptions.0.description"]);
    assert_refused("catalog.offerings.0.durationHours", json!(0), &["offerings.0.durationHours"]);
    assert_refused("catalog.offerings.0.url", json!("larkspur"), &["offerings.0.url"]);
    assert_refused("catalog.offerings.0.price", json!(450), &["offerings.0.price: must be an object"]);
    assert_refused("catalog.offerings.0.id", json!(""), &["offerings.0.id"]);
    assert_refused("catalog.faq.0.answer", json!(null), &["faq.0.answer"]);
    assert_loads("catalog.offerings.0.description", json!(""));
    let tenant = Files::demo().remove("catalog.faq").remove("catalog.paymentOptions").tenant();
    assert!(tenant.catalog.faq.is_empty() && tenant.catalog.payment_options.is_empty());
}

/// ACC-CFG-6, LOAD-11, FN-CFG-6: three fields of an offering take null, and it means absent.
#[test]
fn three_fields_of_an_offering_take_null() {
    let null = Files::demo()
        .set("catalog.offerings.0.durationHours", json!(null))
        .set("catalog.offerings.0.schedule", json!(null))
        .set("catalog.offerings.0.url", json!(null));
    let absent = Files::demo()
        .remove("catalog.offerings.0.durationHours")
        .remove("catalog.offerings.0.schedule")
        .remove("catalog.offerings.0.url");
    assert_eq!(null.tenant().catalog, absent.tenant().catalog);
    assert_eq!(null.tenant().catalog.offerings[0].schedule, None);
}

/// ACC-CFG-6, LOAD-11, LOAD-12: everything else refuses null, with a default or without.
#[test]
fn null_is_not_absent() {
    let places = [
        "catalog.faq",
        "catalog.paymentOptions",
        "rules.messages.closer",
        "rules.confidenceThreshold",
        "rules.historyDays",
        "rules.escalationKeywords",
        "rules.openingTrigger",
        "rules.budget.dailyTokenCap",
        "rules.rateLimit.turnsPerSubscriberPerHour",
        "rules.learning",
        "rules.burst",
        "rules.takeover",
        "rules.handoff",
        "rules.retentionDays",
        "tools.nudge",
        "tools.flows",
        "tools.readable",
        "tools.flows.0.repeatable",
        "tools.flows.1.role",
        "tools.flows.1.onStage",
        "tools.flows.1.offering",
        "tools.flows.1.settleSeconds",
        "tools.fields.0.funnel",
        "tools.notes.0.onEscalation",
        "tools.nudge.humanActiveTag",
        "tools.windowClosing",
    ];
    for place in places {
        let (_, path) = place.split_once('.').unwrap();
        assert_refused(place, json!(null), &[&format!("  {path}: must be ")]);
    }
}

/// ACC-CFG-4, RUL-1, AC-20: defaults of every rule, and the objects that must be there.
#[test]
fn rules_have_the_defaults_of_the_table() {
    let mut files = Files::demo();
    let messages = json!({ "acknowledgement": "a", "escalation": "b" });
    files.rules = json!({ "messages": messages, "budget": {}, "rateLimit": {} });
    let rules = files.tenant().rules;
    assert_eq!((rules.confidence_threshold, rules.max_turns_per_conversation), (0.6, 25));
    assert_eq!((rules.idle_reset_hours, rules.history_days), (24, 30));
    assert_eq!((rules.budget.daily_token_cap, rules.budget.daily_cost_cap_usd), (1_000_000, 5.0));
    assert_eq!(rules.rate_limit.turns_per_subscriber_per_hour, 60);
    assert!(rules.escalation_keywords.is_empty() && rules.opening_trigger.is_none());
    assert!(rules.messages.media_fallback.is_none() && rules.messages.closer.is_none());
    assert_eq!(rules.burst, Burst { answer_together: true, quiet_ms: 0 });
    assert!(rules.takeover.is_none() && rules.handoff.is_none() && rules.retention_days.is_none());
    for key in ["messages", "budget", "rateLimit"] {
        let message = files.clone().remove(&format!("rules.{key}")).refusal();
        assert!(message.contains(&format!("  {key}: is missing")), "{message}");
    }
}

/// ACC-CFG-5, LANG-1, CFG-7, RULE-1, AC-19 and the other rules of section 5.
#[test]
fn rules_outside_their_bounds_are_refused_with_their_place() {
    for value in [json!(1.7), json!(-0.1), json!("0.5")] {
        assert_refused("rules.confidenceThreshold", value, &["  confidenceThreshold: "]);
    }
    assert_refused("rules.messages.escalation", json!(""), &["messages.escalation"]);
    assert_refused("rules.messages.closer", json!(""), &["messages.closer"]);
    for key in ["historyDays", "idleResetHours", "maxTurnsPerConversation"] {
        for value in [json!(0), json!(1.5), json!("1")] {
            assert_refused(&format!("rules.{key}"), value, &[&format!("  {key}: ")]);
        }
    }
    assert_refused("rules.budget.dailyCostCapUsd", json!(0), &["budget.dailyCostCapUsd"]);
    assert_refused("rules.budget.dailyTokenCap", json!(0), &["budget.dailyTokenCap"]);
    assert_refused("rules.openingTrigger", json!({}), &["openingTrigger.keywords", "openingTrigger.message"]);
    assert_refused("rules.openingTrigger.keywords", json!([]), &["openingTrigger.keywords"]);
    assert_refused("rules.openingTrigger.keywords.0", json!(""), &["openingTrigger.keywords.0"]);
    assert_refused("rules.escalationKeywords.1", json!(7), &["escalationKeywords.1"]);
    assert_loads("rules.confidenceThreshold", json!(1));
    assert_loads("rules.confidenceThreshold", json!(0));
}

/// Guard of the time arithmetic: counts no contact can reach load and are read as the largest usable ones.
#[test]
fn huge_limits_load_with_a_warning() {
    let most = json!(9_007_199_254_740_991_u64);
    let files =
        ["historyDays", "idleResetHours", "maxTurnsPerConversation", "rateLimit.turnsPerSubscriberPerHour"]
            .iter()
            .fold(Files::demo(), |files, key| files.set(&format!("rules.{key}"), most.clone()))
            .set("rules.budget.dailyTokenCap", most)
            .set("rules.budget.dailyCostCapUsd", json!(1e300));
    assert_eq!(files.warnings().len(), 5, "{:?}", files.warnings());
    let rules = files.tenant().rules;
    assert_eq!((rules.history_days, rules.idle_reset_hours), (36_500, 876_000));
    assert_eq!(rules.max_turns_per_conversation, 2_147_483_647);
    assert_eq!(rules.budget.daily_token_cap, 9_007_199_254_740_991);
}

/// DEC-5
#[test]
fn bursts_are_on_unless_switched_off() {
    let rules = assert_loads("rules.burst", json!({ "answerTogether": false, "quietMs": 5000 })).rules;
    assert_eq!(rules.burst, Burst { answer_together: false, quiet_ms: 5000 });
    assert!(assert_loads("rules.burst", json!({})).rules.burst.answer_together);
    assert_refused("rules.burst.quietMs", json!(5001), &["  burst.quietMs: must be from 0 to 5000"]);
    assert_refused("rules.burst.answerTogether", json!("no"), &["burst.answerTogether"]);
}

/// DEC-9, DEC-25
#[test]
fn takeover_and_handoff_name_how_a_person_is_called() {
    let rules = assert_loads("rules.takeover", json!({ "pauseMinutes": 90, "tag": "colleague" })).rules;
    let takeover = rules.takeover.unwrap();
    assert_eq!((takeover.pause_minutes, takeover.tag.as_deref()), (Some(90), Some("colleague")));
    assert_loads("rules.takeover", json!({ "tag": "colleague" }));
    assert_refused("rules.takeover", json!({}), &["  takeover: needs pauseMinutes, tag or both"]);
    assert_refused("rules.takeover", json!({ "pauseMinutes": 0 }), &["takeover.pauseMinutes"]);
    assert_refused("rules.takeover", json!({ "pauseMinutes": 52_560_001 }), &["takeover.pauseMinutes"]);
    let warnings = Files::demo().set("rules.takeover", json!({ "tag": "colleague" })).warnings();
    assert!(warnings[0].starts_with("rules.json: takeover.tag: is not handoff.tag"), "{warnings:?}");
    let same = Files::demo()
        .set("rules.takeover", json!({ "tag": "x" }))
        .set("rules.handoff", json!({ "tag": "x" }));
    assert_eq!(same.warnings(), Vec::<String>::new());
    let rules = assert_loads("rules.handoff", json!({ "tag": "needs-person" })).rules;
    assert_eq!(rules.handoff.unwrap().tag, "needs-person");
    assert_refused("rules.handoff", json!({}), &["  handoff.tag: is missing"]);
}

/// DEC-9, DEC-25, as TOOL-28: the agent must not be able to remove what waits for a person or calls one.
#[test]
fn tags_of_the_service_are_not_offered_to_the_model() {
    for key in ["takeover", "handoff"] {
        let words = ["Invalid rules.json", &format!("  {key}.tag: "), "`likes_foundation`"];
        assert_refused(&format!("rules.{key}"), json!({ "tag": "likes-foundation" }), &words);
    }
    let learning = json!({ "language": "en", "convertedTag": "likes-foundation", "maxRunCostUsd": 1 });
    let warnings = Files::demo().set("rules.learning", learning).warnings();
    assert!(warnings[0].starts_with("rules.json: learning.convertedTag: "), "{warnings:?}");
}

/// DEC-13, DEC-35
#[test]
fn retention_never_reaches_into_history() {
    assert_refused("rules.retentionDays", json!(29), &["  retentionDays: ", "historyDays, which is 30"]);
    assert_refused("rules.retentionDays", json!(36_501), &["retentionDays"]);
    assert_eq!(assert_loads("rules.retentionDays", json!(30)).rules.retention_days, Some(30));
}

/// ACC-CFG-15, LOAD-10, DEC-6: unknown keys warn with path and suggestion, inside learning they are refused.
#[test]
fn unknown_keys_warn_and_inside_learning_they_are_refused() {
    let files = Files::demo()
        .set("rules.messages.acknowledgment", json!("x"))
        .set("tools.flows.6.repeatible", json!(true))
        .set("catalog.vat", json!(21));
    let warnings = files.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("catalog.json: vat: unknown key"), "{warnings:?}");
    assert!(warnings[1].starts_with("rules.json: messages.acknowledgment: "));
    assert!(warnings[1].ends_with("did you mean `acknowledgement`?"), "{warnings:?}");
    assert!(warnings[2].contains("flows.6.repeatible") && warnings[2].contains("`repeatable`"));
    let learning =
        json!({ "language": "en", "convertedTag": "paid", "maxRunCostUsd": 1, "convertedtags": 1 });
    assert_refused(
        "rules.learning",
        learning,
        &["  learning.convertedtags: is not a known key", "`convertedTag`"],
    );
}

/// Section 5, `learning`: all three keys come with the block.
#[test]
fn learning_needs_its_three_keys() {
    assert_refused(
        "rules.learning",
        json!({}),
        &["learning.language", "learning.convertedTag", "learning.maxRunCostUsd"],
    );
    let learning = json!({ "language": "en", "convertedTag": "paid", "maxRunCostUsd": 2.5 });
    assert_eq!(assert_loads("rules.learning", learning).rules.learning.unwrap().max_run_cost_usd, 2.5);
}

/// RUL-7, XCK-9: reported at rules.json, with tools.json or without.
#[test]
fn learning_needs_a_funnel_field() {
    let learning = json!({ "language": "en", "convertedTag": "paid", "maxRunCostUsd": 1 });
    let mut files = Files::demo().set("rules.learning", learning);
    files.tools = None;
    assert!(files.refusal().starts_with("Invalid rules.json\n  learning: needs a field marked funnel"));
    files.tools = Some(json!({}));
    assert!(files.refusal().starts_with("Invalid rules.json\n  learning: "));
}

/// ACC-CFG-7, LOAD-20, LOAD-21: keys of an earlier shape are listed before the shape is checked.
#[test]
fn keys_of_an_earlier_shape_name_the_upgrade() {
    let files =
        Files::demo().set("catalog.courses", json!([])).set("catalog.offerings.1.enrollmentUrl", json!("x"));
    let message = files.set("catalog.currency", json!(7)).refusal();
    for word in ["catalog.json", "courses", "offerings[advanced].enrollmentUrl", "`agent upgrade`"] {
        assert!(message.contains(word), "{message}");
    }
    assert!(!message.contains("currency"), "the shape is not checked: {message}");
    assert_refused(
        "tools.fields.4.course",
        json!(true),
        &["tools.json", "fields[course].course", "agent upgrade"],
    );
    assert_refused(
        "rules.learning",
        json!({ "enrolledTag": "x" }),
        &["learning.enrolledTag", "agent upgrade"],
    );
}

/// LOAD-14, LOAD-15: a repeated key takes its last value, a byte order mark is skipped.
#[test]
fn repeated_keys_and_byte_order_marks_are_no_fault() {
    let dir = demo_dir();
    let twice = demo::CATALOG.replace(
        "\"currency\": \"USD\",\n  \"offerings\"",
        "\"currency\": 7, \"currency\": \"USD\",\n  \"offerings\"",
    );
    assert!(twice.len() > demo::CATALOG.len());
    dir.write("catalog.json", format!("\u{feff}{twice}"));
    assert_eq!(load(&dir).unwrap().0.catalog.currency, "USD");
}

/// LOAD-16
#[test]
fn texts_are_not_trimmed() {
    assert_eq!(assert_loads("rules.messages.closer", json!(" ")).rules.messages.closer.as_deref(), Some(" "));
}

/// LOAD-16: a text of blanks loads, and warns wherever a contact would get it.
#[test]
fn a_blank_message_warns() {
    for path in ["acknowledgement", "escalation", "mediaFallback", "closer"] {
        let found = Files::demo().set(&format!("rules.messages.{path}"), json!(" \n")).warnings();
        assert_eq!(
            found,
            [format!("rules.json: messages.{path}: is blank: the contact would get an empty message")]
        );
    }
    let found = Files::demo().set("rules.openingTrigger.message", json!("  ")).warnings();
    assert!(found[0].starts_with("rules.json: openingTrigger.message: is blank"), "{found:?}");
}

/// PRM-1, PRM-2, PRM-3
#[test]
fn the_persona_is_used_exactly_as_written() {
    let mut files = Files::demo();
    for (prompt, warnings) in [("\n\n  Persona {x}\n", 0), ("", 1), (" \n", 1), ("Hello {{name}}", 1)] {
        files.prompt = prompt.to_owned();
        assert_eq!(files.tenant().prompt, prompt);
        let found = files.warnings();
        assert_eq!(found.len(), warnings, "{prompt:?}: {found:?}");
        assert!(found.iter().all(|warning| warning.starts_with("prompt.md: ")));
    }
}

/// CAT-4, GAP-CFG-2, RUL-6
#[test]
fn what_the_reference_lets_pass_warns() {
    let mut files = Files::demo()
        .set("catalog.offerings.1.id", json!("foundation"))
        .set("catalog.offerings.1.price.currency", json!("EUR"))
        .set("catalog.offerings.1.url", json!("ftp://larkspur.example/x"))
        .set("rules.escalationKeywords", json!(["refund", "", "  "]))
        .set("rules.openingTrigger.keywords", json!([" "]));
    files.tools = None;
    let warnings = files.warnings();
    let expected = [
        "catalog.json: offerings: ",
        "catalog.json: offerings.1.price.currency: ",
        "catalog.json: offerings.1.url: ",
        "rules.json: escalationKeywords.1: ",
        "rules.json: escalationKeywords.2: ",
        "rules.json: openingTrigger.keywords.0: ",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, start) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(start), "{warning}");
    }
}

/// DEC-1, 01 section 17: a price that the reference said otherwise is told at load, once for each currency.
#[test]
fn a_price_that_the_reference_said_otherwise_warns() {
    let priced = |first: (u64, &str), second: (u64, &str)| {
        let mut files = Files::demo()
            .set("catalog.currency", json!(first.1))
            .set("catalog.offerings.0.price", json!({ "amount": first.0, "currency": first.1 }))
            .set("catalog.offerings.1.price", json!({ "amount": second.0, "currency": second.1 }));
        files.tools = None;
        let mut warnings = files.warnings();
        warnings.retain(|warning| warning.contains("replaces"));
        warnings
    };
    let found = priced((4_500_000, "CLP"), (100, "CLP"));
    let start = "catalog.json: offerings.0.price.amount: 4500000 CLP is said as 4,500,000 CLP; the service that this \
                 one replaces said 45,000.00 CLP: ";
    assert!(
        found.len() == 1 && found[0].starts_with(start) && found[0].contains("write 45000,"),
        "{found:?}"
    );
    let found = priced((1_500, "JPY"), (1_250_000, "kwd"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("1,250.000 kwd") && found[1].contains("12,500.00 kwd"), "{found:?}");
    assert!(found[1].contains("write 12500000,"), "{found:?}");
    assert_eq!(priced((0, "PYG"), (31_000, "USD")), Vec::<String>::new(), "nothing is free in both");
}

/// GAP-CFG-7: a hash for each file that was read, of its bytes.
#[test]
fn every_file_has_a_content_hash() {
    let dir = demo_dir();
    let hashes = load(&dir).unwrap().0.hashes;
    let names: Vec<_> = hashes.iter().map(|hash| hash.file).collect();
    assert_eq!(names, ["prompt.md", "catalog.json", "rules.json", "tools.json"]);
    // The well-known digest of "abc" begins like this.
    assert_eq!(FileHash::of("prompt.md", b"abc").hash, "ba7816bf8f01");
    dir.write("prompt.md", "Persona");
    let changed = load(&dir).unwrap().0.hashes;
    assert_ne!(changed[0], hashes[0]);
    assert_eq!(changed[1..], hashes[1..]);
}

/// DEC-6: `config/README.md` is the complete reference of the keys, and of no others.
#[test]
fn the_readme_explains_every_key() {
    let readme = include_str!("../../config/README.md");
    for key in every_key() {
        let shown = [format!("`{key}`"), format!(".{key}`"), format!("`{key}[].")];
        assert!(shown.iter().any(|form| readme.contains(form)), "{key} is missing in config/README.md");
    }
    let rows =
        readme.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|row| row.split('|').next());
    let named = rows
        .flat_map(|cell| cell.split('`'))
        .filter(|word| word.starts_with(|ch: char| ch.is_ascii_lowercase()));
    for key in named.filter(|word| !word.ends_with(".md") && !word.ends_with(".json")) {
        let last = key.trim_end_matches("[]").rsplit('.').next().unwrap();
        assert!(every_key().contains(&last), "{key} of config/README.md is no key");
    }
    for stage in Stage::ALL {
        assert!(readme.contains(&format!("`{stage}`")), "{stage}");
    }
}

/// RLD-12: all files are in memory before the first is looked at; a later edit does not reach the load.
#[test]
fn an_edit_during_the_load_does_not_reach_it() {
    let dir = demo_dir();
    let files = TenantFiles::read(dir.path());
    for file in ["prompt.md", "catalog.json", "rules.json", "tools.json"] {
        dir.write(file, b"\xff");
    }
    let (tenant, _) = files.check(&ReservedNames::default()).unwrap();
    assert_eq!(tenant.prompt, "Persona\n");
}
