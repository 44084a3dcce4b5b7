//! What was seen from outside, in the order in which it was seen. One thread writes all of it, so the order of two
//! entries is the order of what happened.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A contact's message: `q12x3` in its text is the third message of contact 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marker {
    pub contact: u32,
    pub number: u32,
}

impl fmt::Display for Marker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "q{}x{}", self.contact, self.number)
    }
}

impl Marker {
    /// All markers of a text, in their order.
    pub fn all(text: &str) -> Vec<Self> {
        text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter_map(Self::parse).collect()
    }

    fn parse(word: &str) -> Option<Self> {
        let (contact, number) = word.strip_prefix('q')?.split_once('x')?;
        Some(Self { contact: contact.parse().ok()?, number: number.parse().ok()? })
    }

    /// What ManyChat calls the contact.
    pub fn subscriber(self) -> String {
        subscriber(self.contact)
    }
}

pub fn subscriber(contact: u32) -> String {
    (70_000_000 + contact).to_string()
}

pub fn contact_of(subscriber: &str) -> Option<u32> {
    subscriber.parse::<u32>().ok()?.checked_sub(70_000_000)
}

/// One launch of a process: `a1` is the first of process `a`.
pub type Life = String;

/// Some fields are there for the reader of a failing test's story alone.
#[allow(dead_code)]
#[derive(Clone, Debug)]
pub enum What {
    /// A message was sent.
    Asked { marker: Marker, life: Life },
    /// Its request was answered with 200 and these texts.
    Answered { marker: Marker, life: Life, texts: Vec<String> },
    /// Its request ended otherwise: the reason.
    NotAnswered { marker: Marker, why: String },
    /// The model was asked for a reply to these.
    Thought { markers: Vec<Marker> },
    /// ManyChat has written the reply field.
    Written { life: Life, contact: u32 },
    /// ManyChat has played the flow with this text. `known`: it said so, and the caller was there to hear it.
    Played { life: Life, contact: u32, text: String, known: bool },
    /// ManyChat was asked for an action of a turn: a flow `f3` or a tag `t3`, named after the message it answers. `known`: it
    /// did it and said so.
    Acted { life: Life, contact: u32, name: String, known: bool },
    /// The process was killed, stopped or lost its database: what it had not recorded may be repeated.
    Struck { life: Life },
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub at: Instant,
    pub what: What,
}

#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Entry>>>);

impl Journal {
    pub fn write(&self, what: What) {
        self.0.lock().unwrap().push(Entry { at: Instant::now(), what });
    }

    pub fn read(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    pub fn any(&self, wanted: impl Fn(&What) -> bool) -> bool {
        self.0.lock().unwrap().iter().any(|entry| wanted(&entry.what))
    }

    /// The last entries, for the message of a failing test.
    pub fn show(&self) -> String {
        let entries = self.read();
        let Some(first) = entries.first() else { return String::new() };
        let lines = entries
            .iter()
            .map(|entry| format!("{:8.3} {:?}\n", (entry.at - first.at).as_secs_f64(), entry.what));
        lines.collect()
    }
}

#[test]
fn markers_are_found_in_texts() {
    let found = Marker::all("Answer to q1x2, q10x31. queue x q7 q8x");
    assert_eq!(found, [Marker { contact: 1, number: 2 }, Marker { contact: 10, number: 31 }]);
    assert_eq!(found[1].to_string(), "q10x31");
    assert_eq!(contact_of(&found[1].subscriber()), Some(10));
}
