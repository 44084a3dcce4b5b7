//! Which models of OpenAI reason, told by their names: these take other parameters than the rest (RUN-10, RUN-11).

/// The name a model has at its maker: without a path before it (DEC-12), and without what marks a fine-tuned one, so
/// `o4-mini:org::id` for `ft:o4-mini:org::id`.
#[must_use]
pub fn base_name(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.strip_prefix("ft:").unwrap_or(name)
}

/// Whether a model of `openai` reasons before it answers: `o<digit>` and everything from GPT-5 on.
#[must_use]
pub fn openai_reasons(model: &str) -> bool {
    openai_refuses_temperature(model) || base_name(model).starts_with("gpt-6")
}

/// RUN-10: whether a model of `openai` is known to refuse a temperature.
#[must_use]
pub fn openai_refuses_temperature(model: &str) -> bool {
    let name = base_name(model);
    let numbered_o =
        name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()));
    numbered_o || name.starts_with("gpt-5")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 01/RUN-10, DEC-12: the pattern counts wherever the name stands, and nowhere else.
    #[test]
    fn models_that_reason_are_known_by_their_names() {
        let reasoning =
            ["gpt-5", "gpt-5.1-mini", "o1", "o9-mini", "openai/gpt-5-mini", "ft:o4-mini-2025-04-16:org::id"];
        for model in reasoning {
            assert!(openai_reasons(model) && openai_refuses_temperature(model), "{model}");
        }
        assert!(openai_reasons("gpt-6-mini") && !openai_refuses_temperature("gpt-6-mini"));
        for model in ["gpt-4.1-mini", "ft:gpt-4o-mini:o1::gpt-5", "omni", "gpt-5/llama", "", "o"] {
            assert!(!openai_reasons(model), "{model}");
        }
    }
}
