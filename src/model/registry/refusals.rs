//! What a model was seen to refuse. A refusal is believed when the call goes well without what was refused: the words
//! of a 400 alone say little, since providers quote the request in them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::Refused;
use super::request::{Form, Target};
use super::wire::Wire;
use crate::model::port::ModelRequest;

/// What the calls of a process have taught about a model.
#[derive(Default)]
pub(super) struct Refusals {
    /// The reply is asked for in the other form, while no tool is offered.
    schema: AtomicBool,
    /// The same while tools are offered.
    schema_with_tools: AtomicBool,
    /// The output limit goes under its other name.
    limit: AtomicBool,
    /// The reasoning effort is left out.
    effort: AtomicBool,
    /// The temperature is left out.
    temperature: AtomicBool,
}

/// In which form one call is made, and what it was refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) form: Form,
    /// The model's capabilities allow it; other than in the first form none are strict.
    strict_tools: bool,
    begins_native: bool,
    has_tried_both: bool,
    begins_with_completion_limit: bool,
    /// Or there is but one name.
    has_tried_both_limits: bool,
    /// What was done without last.
    last: Option<Refused>,
}

impl Refusals {
    /// A call that begins now.
    pub(super) fn course(&self, target: &Target, request: &ModelRequest) -> Course {
        let capabilities = target.capabilities;
        let begins_native = request.tools.is_empty() || capabilities.schema_with_tools;
        let is_other = self.schema_of(request).load(Ordering::Relaxed);
        Course {
            form: Form {
                native_schema: begins_native != is_other,
                completion_limit: capabilities.completion_limit != self.limit.load(Ordering::Relaxed),
                effort: capabilities.reasoning_effort
                    && request.reasoning_effort.is_some()
                    && !self.effort.load(Ordering::Relaxed),
                temperature: !self.temperature.load(Ordering::Relaxed),
                strict_tools: capabilities.strict_tools && !is_other,
            },
            strict_tools: capabilities.strict_tools,
            begins_native,
            has_tried_both: false,
            begins_with_completion_limit: capabilities.completion_limit,
            has_tried_both_limits: target.wire != Wire::OpenAi,
            last: None,
        }
    }

    /// The call went well. What it did without last is what helped; the rest may have been a word that the provider
    /// quoted. Tells what is new to be done without.
    pub(super) fn learn(&self, request: &ModelRequest, course: Course) -> Option<Refused> {
        let (flag, is_set) = match course.last? {
            Refused::Schema => (self.schema_of(request), course.form.native_schema != course.begins_native),
            Refused::Limit => {
                (&self.limit, course.form.completion_limit != course.begins_with_completion_limit)
            }
            Refused::Effort => (&self.effort, true),
            Refused::Temperature => (&self.temperature, true),
            Refused::Tools => return None,
        };
        let was_set = flag.swap(is_set, Ordering::Relaxed);
        course.last.filter(|_| is_set && !was_set)
    }

    fn schema_of(&self, request: &ModelRequest) -> &AtomicBool {
        if request.tools.is_empty() { &self.schema } else { &self.schema_with_tools }
    }
}

impl Course {
    /// Goes on without `refused`; false when that was tried already. Tools are given up by the caller.
    pub(super) fn give_up(&mut self, refused: Refused) -> bool {
        match refused {
            Refused::Schema if !self.has_tried_both => {
                self.has_tried_both = true;
                self.form.native_schema = !self.form.native_schema;
                // A model that refused a schema may have meant one of these.
                self.form.strict_tools = self.strict_tools && self.form.native_schema == self.begins_native;
            }
            Refused::Limit if !self.has_tried_both_limits => {
                self.has_tried_both_limits = true;
                self.form.completion_limit = !self.form.completion_limit;
            }
            Refused::Effort if self.form.effort => self.form.effort = false,
            Refused::Temperature if self.form.temperature => self.form.temperature = false,
            _ => return false,
        }
        self.last = Some(refused);
        true
    }
}
