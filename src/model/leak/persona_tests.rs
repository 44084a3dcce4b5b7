//! Personas that hold facts and phrases to be said, and what an agent with such a persona says.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

pub use personas::PERSONAS;

use crate::model::SystemPrompt;
use crate::model::test_support::tenant_with;

#[path = "fixtures/personas.rs"]
mod personas;

fn finds(persona: &str, texts: &[&str]) -> bool {
    let tenant = tenant_with(|tenant| tenant.prompt = persona.to_owned());
    SystemPrompt::build(&tenant).leaks().finds(texts.iter().copied())
}

/// 01 section 17, FAIL-5: what a persona tells of the business is there to be told, two things at a time as well.
#[test]
fn facts_and_phrases_of_a_persona_are_quotable() {
    for (persona, facts) in PERSONAS {
        for (place, fact) in facts.iter().enumerate() {
            assert!(!finds(persona, &[fact]), "{fact}");
            let next = facts[(place + 1) % facts.len()];
            if facts.len() > 2 {
                assert!(!finds(persona, &[fact, next]), "{fact} {next}");
            }
        }
    }
}

/// 01 section 17: the persona as a whole is still given away, in any dress.
#[test]
fn a_whole_persona_is_a_leak() {
    for (persona, _) in PERSONAS {
        let backward: String = persona.chars().rev().collect();
        let spaced: String = persona.chars().flat_map(|glyph| [glyph, ' ']).collect();
        let encoded = BASE64_STANDARD.encode(persona);
        for text in [persona, &backward, &spaced, &encoded, &format!("Sure: {persona} Anything else?")] {
            assert!(finds(persona, &[text]), "{text}");
        }
        let (start, rest) = persona.split_at(persona.find('\n').unwrap());
        assert!(finds(persona, &[start, rest]), "{persona}");
    }
}

/// 01 section 17: a persona of a few words is no secret.
#[test]
fn a_short_persona_may_be_said() {
    let persona = "You are the assistant of the Riverside Bakery in Elm Lane.";
    assert!(!finds(persona, &[persona]));
}
