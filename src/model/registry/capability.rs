//! What the models of each provider take, as data. What a table cannot know is learnt from refusals ([`super::hosted`]).

use super::wire::Wire;
use crate::config::{base_name, openai_reasons};

/// What a model takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Capabilities {
    /// Structured output beside tools, in one request. Without it the reply is one more tool while tools are offered.
    pub(super) schema_with_tools: bool,
    /// Holding the arguments of a call to the schema of its tool.
    pub(super) strict_tools: bool,
    /// The demand to call a tool. A model that overlooks it may answer in prose.
    pub(super) tool_choice: bool,
    /// The highest temperature; which models take none at all is known before the registry (RUN-10).
    pub(super) highest_temperature: f64,
    /// A reasoning effort (RUN-10): only those that reason know the parameter, the rest refuse it.
    pub(super) reasoning_effort: bool,
    /// The output limit as `max_completion_tokens`; otherwise, at OpenAI's interface, as `max_tokens`.
    pub(super) completion_limit: bool,
    /// Being told to think for no token at all; others that think do so inside the output limit (RUN-11).
    pub(super) no_thinking_budget: bool,
    /// Pictures; in doubt no (MEDIA-504).
    pub(super) images: bool,
}

/// Everything a provider of large models offers.
const ALL: Capabilities = Capabilities {
    schema_with_tools: true,
    strict_tools: true,
    tool_choice: true,
    highest_temperature: 2.0,
    reasoning_effort: false,
    completion_limit: false,
    no_thinking_budget: false,
    images: true,
};

/// Strict tools are left out: their grammars add up to more than Anthropic compiles.
const ANTHROPIC: Capabilities = Capabilities { strict_tools: false, highest_temperature: 1.0, ..ALL };

/// Servers that only speak OpenAI's language may be behind names that are not OpenAI's.
const OPENAI_LIKE: Capabilities = Capabilities { strict_tools: false, ..ALL };

/// OpenAI's open models run on such servers, and reason.
const GPT_OSS: Capabilities = Capabilities { reasoning_effort: true, ..OPENAI_LIKE };

const GOOGLE: Capabilities = Capabilities { strict_tools: false, ..ALL };

/// Before Gemini 3, function calling and JSON answers exclude each other.
const OLDER_GEMINI: Capabilities = Capabilities { schema_with_tools: false, ..GOOGLE };

/// They think unless they are given no budget for it.
const GEMINI_2_5_FLASH: Capabilities = Capabilities { no_thinking_budget: true, ..OLDER_GEMINI };

/// With a response format Ollama never calls a tool, and it does not obey the demand to call one.
const OLLAMA: Capabilities =
    Capabilities { schema_with_tools: false, strict_tools: false, tool_choice: false, images: false, ..ALL };

const WITHOUT_IMAGES: Capabilities = Capabilities { images: false, ..ALL };

/// Wire, beginning of the model's name, capabilities; the first row that fits counts.
const TABLE: [(Wire, &str, Capabilities); 15] = [
    (Wire::Anthropic, "", ANTHROPIC),
    (Wire::OpenAi, "gpt-3.5", WITHOUT_IMAGES),
    (Wire::OpenAi, "o1-mini", WITHOUT_IMAGES),
    (Wire::OpenAi, "o3-mini", WITHOUT_IMAGES),
    (Wire::OpenAi, "gpt-oss", GPT_OSS),
    (Wire::OpenAi, "gpt-", ALL),
    (Wire::OpenAi, "o1", ALL),
    (Wire::OpenAi, "o3", ALL),
    (Wire::OpenAi, "o4", ALL),
    (Wire::OpenAi, "", OPENAI_LIKE),
    (Wire::Google, "gemini-1", OLDER_GEMINI),
    (Wire::Google, "gemini-2.5-flash", GEMINI_2_5_FLASH),
    (Wire::Google, "gemini-2", OLDER_GEMINI),
    (Wire::Google, "", GOOGLE),
    (Wire::Ollama, "", OLLAMA),
];

impl Capabilities {
    /// Those of `model` at its provider. A path before the name does not count (DEC-12), nor does what marks a model of
    /// OpenAI as fine-tuned.
    pub(super) fn of(wire: Wire, model: &str) -> Self {
        let name = base_name(model);
        let row = TABLE.iter().find(|(row_wire, begin, _)| *row_wire == wire && name.starts_with(begin));
        let listed = row.map_or(OLLAMA, |(_, _, capabilities)| *capabilities);
        if wire == Wire::OpenAi && openai_reasons(name) {
            Self { reasoning_effort: true, completion_limit: true, ..listed }
        } else {
            listed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::registry::test_support::ALL_WIRES;

    /// 01/RUN-4, PROV-6: who takes structured output beside tools.
    #[test]
    fn older_gemini_and_ollama_reply_through_a_tool() {
        let cases = [
            (Wire::Anthropic, "claude-haiku-4-5", true),
            (Wire::OpenAi, "gpt-4o-mini", true),
            (Wire::Google, "gemini-2.5-flash", false),
            (Wire::Google, "models/gemini-1.5-pro", false),
            (Wire::Google, "gemini-3-pro", true),
            (Wire::Ollama, "llama3.1:8b", false),
        ];
        for (wire, model, expected) in cases {
            assert_eq!(Capabilities::of(wire, model).schema_with_tools, expected, "{model}");
        }
    }

    /// 01/RUN-10, 01/RUN-11: only models that reason get an effort, and OpenAI's want the limit by another name.
    #[test]
    fn reasoning_models_are_known_wherever_their_name_stands() {
        let cases = [
            (Wire::OpenAi, "gpt-5-mini", (true, true)),
            (Wire::OpenAi, "gpt-6", (true, true)),
            (Wire::OpenAi, "o9-mini", (true, true)),
            (Wire::OpenAi, "openai/gpt-5-mini", (true, true)),
            (Wire::OpenAi, "ft:o4-mini-2025-04-16:org::id", (true, true)),
            (Wire::OpenAi, "openai/gpt-oss-120b", (true, false)),
            (Wire::OpenAi, "gpt-4.1-mini", (false, false)),
            (Wire::OpenAi, "ft:gpt-4o-mini:org::id", (false, false)),
            (Wire::OpenAi, "some-model", (false, false)),
            (Wire::Ollama, "o3", (false, false)),
            (Wire::Google, "gpt-5", (false, false)),
        ];
        for (wire, model, expected) in cases {
            let found = Capabilities::of(wire, model);
            assert_eq!((found.reasoning_effort, found.completion_limit), expected, "{model}");
        }
    }

    /// MEDIA-504
    #[test]
    fn pictures_go_to_those_who_surely_take_them() {
        let cases = [
            (Wire::Anthropic, "claude-haiku-4-5", true),
            (Wire::Google, "gemini-2.5-flash", true),
            (Wire::OpenAi, "gpt-4o", true),
            (Wire::OpenAi, "o1", true),
            (Wire::OpenAi, "gpt-3.5-turbo", false),
            (Wire::OpenAi, "o1-mini", false),
            (Wire::OpenAi, "o3-mini-high", false),
            (Wire::Ollama, "llava:13b", false),
        ];
        for (wire, model, expected) in cases {
            assert_eq!(Capabilities::of(wire, model).images, expected, "{model}");
        }
    }

    /// 01/RUN-10: every wire has a row for names nobody thought of.
    #[test]
    fn a_name_nobody_knows_has_a_row() {
        for wire in ALL_WIRES {
            let named = TABLE.iter().find(|(row_wire, begin, _)| *row_wire == wire && begin.is_empty());
            assert_eq!(Capabilities::of(wire, "nobody-knows").images, named.unwrap().2.images, "{wire:?}");
        }
    }
}
