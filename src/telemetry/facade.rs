//! Crates that report through the `log` facade reach the same log, with the same levels and the same cleaning.

use log::{LevelFilter, Log, Metadata, Record};

use super::level::may_speak;

/// Turns records into events.
struct Bridge;

/// Other crates stay at `warn`, so nothing below it is even formatted (PRIN-C5). A facade that is taken already stays
/// as it is.
pub(super) fn install() {
    if log::set_logger(&Bridge).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            pass_on(record);
        }
    }

    fn flush(&self) {}
}

/// The message only of crates that see no words of a contact.
fn pass_on(record: &Record<'_>) {
    let place = format!("{}:{}", record.target(), record.line().unwrap_or_default());
    let what = may_speak(record.target()).then(|| record.args());
    let quiet = format_args!("a library reported a problem");
    let what = what.unwrap_or(&quiet);
    match record.level() {
        log::Level::Error => tracing::error!(target: "library", library = place, "{what}"),
        _ => tracing::warn!(target: "library", library = place, "{what}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::super::{LogLevel, subscriber};
    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines_of(threshold: LogLevel, secret: &str) -> Vec<Value> {
        let kept = Kept::default();
        let records = [
            (log::Level::Error, "actix_web::app", "no route to +54 9 11 5555 0101 with the-secret-of-all"),
            (log::Level::Warn, "unknown_crate::inner", "zanzibar marmalade"),
            (log::Level::Info, "tokio_postgres::connection", "NOTICE: zanzibar"),
        ];
        tracing::subscriber::with_default(
            subscriber(threshold, &[secret.to_owned()], kept.clone()).unwrap(),
            || {
                for (level, target, message) in records {
                    let args = format_args!("{message}");
                    Bridge
                        .log(&Record::builder().level(level).target(target).line(Some(7)).args(args).build());
                }
            },
        );
        let written = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// LOG-1, LOG-4, PII-8, LOG-9: records of the facade are held at `warn` and cleaned; a crate that may handle a
    /// contact's words is named and not quoted.
    #[test]
    fn records_of_the_facade_are_cleaned_like_events() {
        let lines = lines_of(LogLevel::Trace, "the-secret-of-all");
        let shown: Vec<_> = lines
            .iter()
            .map(|line| {
                (
                    line["level"].as_u64().unwrap(),
                    line["library"].as_str().unwrap(),
                    line["msg"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (50, "actix_web::app:7", "no route to [phone] with [secret]"),
                (40, "unknown_crate::inner:7", "a library reported a problem"),
            ]
        );
        assert_eq!(lines_of(LogLevel::Error, "the-secret-of-all").len(), 1, "the threshold holds");
        assert_eq!(lines_of(LogLevel::Fatal, "the-secret-of-all").len(), 0);
    }
}
