//! What the mock model says, and when: the table of MOCK-6 as data. The first row that applies wins.

use super::matching::Heard;
use crate::domain::EscalationReason;

/// A reply of the mock model.
pub struct Script {
    /// What the contact reads.
    pub messages: &'static [&'static str],
    /// Why it hands off; `None` when it answers.
    pub reason: Option<EscalationReason>,
    /// As the table has it.
    pub confidence: f64,
    /// The closing question.
    pub question: Option<&'static str>,
}

/// One row of the table.
pub struct Row {
    /// Whether the row applies.
    pub when: fn(&Heard) -> bool,
    /// What is said then.
    pub script: Script,
}

/// An answer with a closing question.
pub const fn answer(confidence: f64, messages: &'static [&'static str], question: &'static str) -> Script {
    Script { messages, reason: None, confidence, question: Some(question) }
}

/// A handoff, which asks nothing.
pub const fn hand_off(
    reason: EscalationReason,
    confidence: f64,
    messages: &'static [&'static str],
) -> Script {
    Script { messages, reason: Some(reason), confidence, question: None }
}

/// The default closing question, called Q in the table.
pub const MORE: &str = "Is there anything else I can help you with?";

/// Words about paying in parts.
pub const PARTS: &[&str] = &["instalment", "installment", "in parts", "expensive", "deposit"];
/// Row 17
pub const TIMES: &[&str] = &["schedule", "when", "what day", "timetable"];
const PRICES: &[&str] = &["price", "cost", "how much", "fee"];
const HAGGLE: &[&str] = &["discount", "cheaper", "deal", "best price"];
const PAID: &[&str] = &[
    "i paid",
    "i just paid",
    "i've paid",
    "i've just paid",
    "i have paid",
    "i have just paid",
    "receipt",
    "transfer done",
    "transfer is done",
];

/// The first row that applies, the last one when none does (MOCK-6).
pub fn table(heard: &Heard) -> &'static Script {
    ROWS.iter().find(|row| (row.when)(heard)).map_or(&OTHERWISE, |row| &row.script)
}

fn asks_for_parts(heard: &Heard) -> bool {
    heard.payment_options && heard.any(PARTS) && !heard.any(HAGGLE)
}

/// MOCK-8
pub const IMAGE_ONLY: Script =
    answer(0.85, &["Thanks for the picture!", "Which course would you like to know more about?"], MORE);

/// Row 19
pub const OTHERWISE: Script = hand_off(
    EscalationReason::OutOfScope,
    0.8,
    &["I don't have that information here, so I'm passing you to someone on the team."],
);

/// Rows 1 to 18. Row 12 is two here, one for the deposit and one for the instalments.
pub const ROWS: &[Row] = &[
    Row {
        when: Heard::has_no_words,
        script: answer(0.9, &["I'm here! What would you like to know about our courses?"], MORE),
    },
    Row { when: Heard::only_closers, script: answer(0.9, &["You're very welcome!"], MORE) },
    Row {
        when: |heard| heard.any(&["ignore", "system prompt", "no rules", "you are now", "forget your"]),
        script: hand_off(
            EscalationReason::OutOfScope,
            0.9,
            &["I can't do that, but I can put you in touch with a person on the team."],
        ),
    },
    Row {
        when: |heard| {
            let asks = ["speak", "talk", "put me through", "connect me"];
            heard.near(&asks, 20, &["human", "person", "someone", "agent"])
        },
        script: hand_off(
            EscalationReason::ExplicitRequest,
            0.95,
            &["Of course. I'm passing you to someone on the team."],
        ),
    },
    Row {
        when: |heard| {
            heard.near(&["are you a", "is this a"], 10, &["bot", "human", "robot", "machine", "real person"])
        },
        script: answer(
            0.95,
            &["Yes, I'm an automated assistant.", "I can pass you to a person whenever you like."],
            MORE,
        ),
    },
    Row {
        when: |heard| heard.near(&["you're", "youre", "you are"], 10, &["a real person", "human"]),
        script: answer(
            0.9,
            &["I'm an automated assistant, not a person.", "I can pass you to a person whenever you like."],
            MORE,
        ),
    },
    Row {
        when: |heard| {
            let listed = heard.any(&[
                "places left",
                "spots left",
                "hurry",
                "go up",
                "goes up",
                "deadline",
                "make good money",
            ]);
            listed || heard.word_starting_with("earn")
        },
        script: hand_off(
            EscalationReason::OutOfScope,
            0.85,
            &["I don't have that information. Someone on the team can tell you more."],
        ),
    },
    Row {
        when: |heard| heard.any(&["certificate", "diploma", "qualification"]),
        script: answer(0.9, &["You get a certificate of attendance on the last day."], MORE),
    },
    Row {
        when: |heard| heard.any(&["material", "kit", "included"]),
        script: answer(0.9, &["A practice kit is included with every course."], MORE),
    },
    Row {
        when: |heard| {
            heard.near(&["guarantee", "placement"], 30, &["job", "work", "hired", "employ"])
                || heard.near(&["job"], 30, &["guarantee"])
        },
        script: answer(
            0.88,
            &["We don't guarantee a job.", "Our certificate is recognised by local workshops, though."],
            MORE,
        ),
    },
    Row {
        when: |heard| heard.any(&["where", "campus", "address", "online", "in person"]),
        script: answer(0.88, &["All courses are taught in person at our main campus."], MORE),
    },
    Row {
        when: |heard| asks_for_parts(heard) && heard.any(&["deposit"]),
        script: answer(
            0.9,
            &["A deposit of $120 holds your place, and you pay the rest before the first class."],
            "Would that work for you?",
        ),
    },
    Row {
        when: asks_for_parts,
        script: answer(
            0.9,
            &["You can pay in three equal monthly instalments, with no surcharge."],
            "Would that work for you?",
        ),
    },
    Row {
        when: |heard| heard.any(HAGGLE) || heard.any(PARTS),
        script: hand_off(
            EscalationReason::PriceNegotiation,
            0.95,
            &["I'm passing your question about the price to someone on the team."],
        ),
    },
    Row {
        when: |heard| heard.any(&["complaint", "dispute", "refund", "money back", "scam"]),
        script: hand_off(
            EscalationReason::Complaint,
            0.95,
            &["I'm sorry about that. I'm passing it to someone on the team right away."],
        ),
    },
    Row {
        when: |heard| heard.any(PAID),
        script: hand_off(
            EscalationReason::PaymentReported,
            0.95,
            &["Thank you for telling me. A person on the team will check it and write to you."],
        ),
    },
    Row {
        when: |heard| heard.any(PRICES),
        script: answer(
            0.9,
            &["The Foundation Course is $450.00.", "It runs 24 hours total. Want the enrolment link?"],
            MORE,
        ),
    },
    Row {
        when: |heard| heard.any(TIMES),
        script: answer(
            0.88,
            &["The Foundation Course runs Tuesdays and Thursdays, 6–9pm, for 4 weeks."],
            MORE,
        ),
    },
    Row {
        when: |heard| heard.any(&["hello", "hi", "good morning", "good afternoon", "hey"]),
        script: answer(0.92, &["Hello, nice to hear from you!"], "How can I help you today?"),
    },
];
