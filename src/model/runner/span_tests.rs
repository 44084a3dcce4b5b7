//! What whoever collects spans gets to see of a turn.

use std::sync::{Arc, Mutex};

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::*;
use crate::domain::Provider;
use crate::model::registry::resolve;
use crate::model::test_support::{settings, tenant_with};

/// Names and values of all spans of ours, and all of their fields, as a collector would keep them.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().target().starts_with(env!("CARGO_CRATE_NAME")) {
            self.0.lock().unwrap().push(attributes.metadata().name().to_owned());
        }
        attributes.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut self.clone());
    }
}

impl Visit for Collector {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

async fn answer() {
    let tenant = Arc::new(tenant_with(|tenant| tenant.prompt = "Planted persona".to_owned()));
    let input = TurnInput {
        system: SystemPrompt::build(&tenant),
        tenant,
        state_lines: vec!["Planted state".to_owned()],
        texts: vec![ContactText::new("Planted words")],
        history: Vec::new(),
        tools: None,
        spent: Spent::default(),
    };
    resolve(&settings(Provider::Mock, "demo")).unwrap().run(input).await;
}

/// RUN-15, PRIN-C5: a turn is one span of that name, and there is nothing in it: no prompt, no completion.
#[tokio::test]
async fn a_turn_is_a_span_that_says_nothing() {
    // The span is known before anybody listens: another test's thread that met it first, without a listener, would have
    // it left out here too.
    answer().await;
    let collector = Collector::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(collector.clone()));
    tracing::callsite::rebuild_interest_cache();
    answer().await;
    assert_eq!(*collector.0.lock().unwrap(), ["agent-turn"]);
}
