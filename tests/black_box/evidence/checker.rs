//! What ARC-40, ARC-42 and ARC-43 ask of a run, judged from the journal of what clients and ManyChat saw. The tables
//! add only what cannot be seen from outside: which messages were accepted, and which handoffs were recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::journal::{Entry, Life, Marker, What, contact_of};

/// One row of `turns` with a contact's words.
#[derive(Clone, Debug)]
pub struct UserRow {
    pub id: Uuid,
    pub marker: Marker,
    /// Place among all turns.
    pub seq: i32,
    /// Messages of one burst have the same.
    pub burst: String,
}

/// What the tables say.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// In the order of `seq`.
    pub users: Vec<UserRow>,
    /// Contact and turn of every row of `rs_handoffs`.
    pub handoffs: Vec<(String, Option<Uuid>)>,
    /// Contact, id and status of every entry in `turns.actions`.
    pub entries: Vec<(String, String, String)>,
}

/// What the run was like.
pub struct Facts {
    pub escalation: String,
    /// Longest time that a contact may have to wait for an answer (ARC-42).
    pub lease: Duration,
    /// So long before a process was struck, what it did may not have been recorded.
    pub window: Duration,
    /// Messages that ask whether their contact is still heard.
    pub probes: BTreeSet<Marker>,
    /// Postgres was away: what a contact is told in time meanwhile is decided without it.
    pub outage: bool,
    /// Where Postgres may be slow: a handoff's text this long after its message can stand for a Settle that did not answer
    /// in time and was carried out all the same, so that its reply follows (ARC-31).
    pub slow: Option<std::ops::Range<Duration>>,
}

/// The verdict. Numbers are messages.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub sent: usize,
    pub accepted: usize,
    pub answered: usize,
    pub handed_off: usize,
    /// A handoff was told while its turn could still settle, and the reply followed (ARC-31). A fault but in an outage.
    pub corrected: usize,
    /// The duplicates of ARC-43, in its order.
    pub inline_unconfirmed: usize,
    pub acceptance_unrecorded: usize,
    /// Actions that ManyChat was asked for.
    pub acts: usize,
    pub faults: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Accepted, and neither answered nor handed off (ARC-40).
    Lost,
    /// A handoff was recorded and not told, or told and not recorded (ARC-40).
    HalfHandoff,
    /// Both a reply and a recorded handoff (ARC-40).
    Both,
    /// Both a reply and the handoff's text, which nobody recorded (ARC-40).
    Corrected,
    /// A duplicate of neither allowed kind (ARC-43).
    Doubled,
    /// Replies or handoffs' texts out of order (ARC-43).
    Disorder,
    /// A later message was not heard within the lease (ARC-42).
    Silenced,
    /// An action was attempted twice (ARC-41).
    Repeated,
    /// The record says of an action what ManyChat has not seen, or nothing, or that it is still to come (ARC-41).
    FalseRecord,
    /// The stand-in for the model has not found the message to answer: what else is reported means nothing.
    Blind,
}

#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub what: String,
}

impl Report {
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn count(&self, kind: &Kind) -> usize {
        self.faults.iter().filter(|fault| fault.kind == *kind).count()
    }

    pub fn has(&self, kind: &Kind) -> bool {
        self.count(kind) > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `.ci/run` looks for these words.
        out.write_str(if self.is_sound() { "" } else { "NOT SOUND: " })?;
        write!(
            out,
            "sent {}, accepted {}, answered {}, handed off {} (corrected {}), duplicates: inline unconfirmed {}, \
             acceptance unrecorded {}, forbidden {}; lost {}, half handoffs {}, both {}, out of order {}, silenced {}; \
             actions {}, repeated {}, false on record {}",
            self.sent,
            self.accepted,
            self.answered,
            self.handed_off,
            self.corrected,
            self.inline_unconfirmed,
            self.acceptance_unrecorded,
            self.count(&Kind::Doubled),
            self.count(&Kind::Lost),
            self.count(&Kind::HalfHandoff),
            self.count(&Kind::Both),
            self.count(&Kind::Disorder),
            self.count(&Kind::Silenced),
            self.acts,
            self.count(&Kind::Repeated),
            self.count(&Kind::FalseRecord),
        )?;
        self.faults.iter().try_for_each(|fault| write!(out, "\n  {:?}: {}", fault.kind, fault.what))
    }
}

/// Something a contact has read: a reply or the handoff's text.
#[derive(Clone, Debug)]
struct Told {
    /// Place in the journal.
    place: usize,
    at: Instant,
    life: Life,
    /// The response of a request; otherwise a flow of ManyChat, and whether the service heard that it was accepted.
    inline: bool,
    known: bool,
}

/// What is known of one message.
#[derive(Debug, Default)]
struct Case {
    asked: Option<(usize, Instant)>,
    /// When its request was answered with 200, whatever the texts.
    responded: Option<usize>,
    /// Replies that name it, and its place in each.
    replies: Vec<(Told, usize)>,
    /// Its own request was answered with the handoff's text.
    told_handoff: Option<Told>,
    row: Option<UserRow>,
    handoff: bool,
}

impl Case {
    fn is_accepted(&self) -> bool {
        self.row.is_some() || self.responded.is_some()
    }

    fn first_reply(&self) -> Option<(usize, usize)> {
        self.replies.first().map(|(told, place)| (told.place, *place))
    }
}

pub fn check(entries: &[Entry], tables: &Tables, facts: &Facts) -> Report {
    let mut checker = Checker::read(entries, facts);
    checker.add(tables);
    checker.judge()
}

struct Checker<'a> {
    facts: &'a Facts,
    cases: BTreeMap<Marker, Case>,
    struck: Vec<(Life, Instant)>,
    /// The handoff's text as ManyChat delivered it, by contact.
    delivered_handoffs: HashMap<u32, Vec<Told>>,
    /// Recorded handoffs by contact: of a known turn, of none.
    recorded: HashMap<u32, (usize, usize)>,
    /// Attempts of actions by contact and id; whether one of them is known to have been done.
    acts: BTreeMap<(u32, String), Vec<bool>>,
    /// What the record says of them.
    entries: BTreeMap<(u32, String), Vec<String>>,
    report: Report,
}

impl<'a> Checker<'a> {
    fn read(entries: &[Entry], facts: &'a Facts) -> Self {
        let mut checker = Self {
            facts,
            cases: BTreeMap::new(),
            struck: Vec::new(),
            delivered_handoffs: HashMap::new(),
            recorded: HashMap::new(),
            acts: BTreeMap::new(),
            entries: BTreeMap::new(),
            report: Report::default(),
        };
        for (place, entry) in entries.iter().enumerate() {
            checker.take(place, entry);
        }
        checker
    }

    fn take(&mut self, place: usize, entry: &Entry) {
        let told =
            |life: &Life, inline, known| Told { place, at: entry.at, life: life.clone(), inline, known };
        match &entry.what {
            What::Asked { marker, .. } => {
                self.cases.entry(*marker).or_default().asked = Some((place, entry.at));
            }
            What::Answered { marker, life, texts } => {
                let escalation = texts.contains(&self.facts.escalation);
                let case = self.cases.entry(*marker).or_default();
                case.responded = Some(place);
                if escalation {
                    case.told_handoff = Some(told(life, true, true));
                }
                texts.iter().for_each(|text| self.reply(text, &told(life, true, true)));
            }
            What::Played { life, contact, text, known } => {
                let told = told(life, false, *known);
                if *text == self.facts.escalation {
                    self.delivered_handoffs.entry(*contact).or_default().push(told);
                } else {
                    self.reply(text, &told);
                }
            }
            What::Acted { contact, name, known, .. } => {
                self.acts.entry((*contact, name.clone())).or_default().push(*known);
            }
            What::Struck { life } => self.struck.push((life.clone(), entry.at)),
            What::Thought { markers } if markers.is_empty() => {
                self.fault(Kind::Blind, format!("entry {place} of the journal"));
            }
            What::NotAnswered { .. } | What::Thought { .. } | What::Written { .. } => {}
        }
    }

    fn reply(&mut self, text: &str, told: &Told) {
        for (place, marker) in Marker::all(text).into_iter().enumerate() {
            self.cases.entry(marker).or_default().replies.push((told.clone(), place));
        }
    }

    fn add(&mut self, tables: &Tables) {
        for row in &tables.users {
            self.cases.entry(row.marker).or_default().row = Some(row.clone());
        }
        for (subscriber, id, status) in &tables.entries {
            let Some(contact) = contact_of(subscriber) else { continue };
            self.entries.entry((contact, id.clone())).or_default().push(status.clone());
        }
        for (subscriber, turn) in &tables.handoffs {
            let Some(contact) = contact_of(subscriber) else { continue };
            let first = turn.and_then(|turn| tables.users.iter().find(|row| row.id == turn));
            let counts = self.recorded.entry(contact).or_default();
            let Some(first) = first else {
                counts.1 += 1;
                // A burst that could not even be opened: one handoff for all of it.
                let without_row = self.cases.iter_mut().filter(|(marker, _)| marker.contact == contact);
                without_row.filter(|(_, case)| case.row.is_none()).for_each(|(_, case)| case.handoff = true);
                continue;
            };
            counts.0 += 1;
            let of_burst = |row: &&UserRow| row.marker.contact == contact && row.burst == first.burst;
            for row in tables.users.iter().filter(of_burst) {
                self.cases.entry(row.marker).or_default().handoff = true;
            }
        }
    }

    fn fault(&mut self, kind: Kind, what: String) {
        self.report.faults.push(Fault { kind, what });
    }

    /// Whether what this process did at that time may have gone unrecorded.
    fn was_struck(&self, told: &Told) -> bool {
        // What was said just before can be heard of a little later.
        let slack = Duration::from_secs(1);
        self.struck.iter().any(|(life, at)| {
            *life == told.life && *at + slack >= told.at && *at <= told.at + self.facts.window
        })
    }

    fn judge(mut self) -> Report {
        let cases = std::mem::take(&mut self.cases);
        for (marker, case) in &cases {
            self.judge_message(*marker, case);
            self.judge_duplicates(*marker, case);
            self.judge_probe(*marker, case);
        }
        let contacts: BTreeSet<u32> = cases.keys().map(|marker| marker.contact).collect();
        for contact in contacts {
            let of_contact: Vec<_> = cases.iter().filter(|(marker, _)| marker.contact == contact).collect();
            let delivered = self.delivered_handoffs.remove(&contact).unwrap_or_default();
            self.judge_order(contact, &of_contact, &delivered);
            self.judge_handoffs(contact, &of_contact, &delivered);
        }
        self.judge_acts();
        self.report.faults.sort_by_key(|fault| fault.kind);
        self.report
    }

    /// No action twice, and the record true of each.
    fn judge_acts(&mut self) {
        let (acts, entries) = (std::mem::take(&mut self.acts), std::mem::take(&mut self.entries));
        self.report.acts = acts.values().map(Vec::len).sum();
        for ((contact, id), attempts) in &acts {
            if attempts.len() > 1 {
                self.fault(Kind::Repeated, format!("contact {contact}: {id}, {} times", attempts.len()));
            }
            let tried = |status: &String| matches!(status.as_str(), "performed" | "failed");
            let on_record = entries.get(&(*contact, id.clone())).is_some_and(|all| all.iter().any(tried));
            if !on_record {
                self.fault(
                    Kind::FalseRecord,
                    format!("contact {contact}: {id} was attempted, not on record"),
                );
            }
        }
        for ((contact, id), statuses) in &entries {
            let known = acts.get(&(*contact, id.clone())).is_some_and(|all| all.contains(&true));
            if statuses.iter().any(|status| status == "performed") && !known {
                self.fault(Kind::FalseRecord, format!("contact {contact}: {id} was not performed"));
            }
            if statuses.iter().any(|status| status == "staged") {
                self.fault(Kind::FalseRecord, format!("contact {contact}: {id} is still staged"));
            }
        }
    }

    fn judge_message(&mut self, marker: Marker, case: &Case) {
        self.report.sent += usize::from(case.asked.is_some());
        if !case.is_accepted() {
            return;
        }
        self.report.accepted += 1;
        let (answered, told) = (!case.replies.is_empty(), case.told_handoff.is_some());
        self.report.answered += usize::from(answered);
        self.report.handed_off += usize::from(!answered && (case.handoff || told));
        if answered && told && !case.handoff {
            self.report.corrected += 1;
            if !self.facts.outage && !self.was_slow(case) {
                self.fault(Kind::Corrected, format!("{marker} was told of a person and answered"));
            }
        }
        if answered && case.handoff {
            self.fault(Kind::Both, format!("{marker} was answered, and a handoff is recorded"));
        }
        if !answered && !case.handoff && !told {
            self.fault(Kind::Lost, format!("{marker}: row {}", case.row.is_some()));
        }
        if !answered && told && !case.handoff && case.row.is_some() {
            self.fault(Kind::HalfHandoff, format!("{marker} was told of a handoff that is not recorded"));
        }
    }

    fn was_slow(&self, case: &Case) -> bool {
        let taken = case.told_handoff.as_ref().zip(case.asked).map(|(told, (_, asked))| told.at - asked);
        taken.zip(self.facts.slow.clone()).is_some_and(|(taken, slow)| slow.contains(&taken))
    }

    fn judge_duplicates(&mut self, marker: Marker, case: &Case) {
        let mut inline_before = false;
        for pair in case.replies.windows(2) {
            let [(earlier, _), (later, _)] = pair else { continue };
            if later.inline {
                self.fault(Kind::Doubled, format!("{marker}: a second reply came inline"));
            } else if earlier.inline && !inline_before && self.was_struck(earlier) {
                inline_before = true;
                self.report.inline_unconfirmed += 1;
            } else if !earlier.inline && (!earlier.known || self.was_struck(earlier)) {
                self.report.acceptance_unrecorded += 1;
            } else {
                let way = if earlier.inline { "inline" } else { "ManyChat" };
                let what = format!("{marker}: again from {}, first by {} ({way})", later.life, earlier.life);
                self.fault(Kind::Doubled, what);
            }
        }
    }

    /// Every recorded handoff is told, and not more often than it was recorded.
    fn judge_handoffs(&mut self, contact: u32, cases: &[(&Marker, &Case)], delivered: &[Told]) {
        let inline: Vec<Told> = cases.iter().filter_map(|(_, case)| case.told_handoff.clone()).collect();
        let (of_turns, of_none) = self.recorded.get(&contact).copied().unwrap_or_default();
        let told = inline.len() + delivered.len();
        if told < of_turns + of_none {
            let what = format!("contact {contact}: {} recorded, {told} told", of_turns + of_none);
            self.fault(Kind::HalfHandoff, what);
        }
        let without_row =
            cases.iter().filter(|(_, case)| case.told_handoff.is_some() && case.row.is_none()).count();
        // Told while its turn could still settle; what became of that is judged with the message.
        let unrecorded = cases
            .iter()
            .filter(|(_, case)| case.told_handoff.is_some() && case.row.is_some() && !case.handoff)
            .count();
        let needed = of_turns + of_none.max(without_row) + unrecorded;
        let excess = told.saturating_sub(needed);
        let uncertain = inline.iter().chain(delivered).filter(|told| !told.known || self.was_struck(told));
        if excess > uncertain.count() {
            self.fault(
                Kind::Doubled,
                format!("contact {contact}: a handoff was told {excess} times too often"),
            );
        } else {
            self.report.acceptance_unrecorded += excess;
        }
    }

    /// By what a client can know (a message sent after the answer to another), and by the order of acceptance. The texts of
    /// handoffs have their place in it.
    fn judge_order(&mut self, contact: u32, cases: &[(&Marker, &Case)], delivered: &[Told]) {
        let handoffs = self.places_of_handoffs(contact, cases, delivered);
        let heard: Vec<_> = cases
            .iter()
            .filter_map(|(marker, case)| {
                let place = case.first_reply().or_else(|| handoffs.get(marker).map(|place| (*place, 0)))?;
                Some((marker, case, place))
            })
            .collect();
        for (marker, case, place) in &heard {
            for (other, later, later_place) in &heard {
                let seen = case.responded.zip(later.asked).is_some_and(|(answer, asked)| answer < asked.0);
                let recorded =
                    case.row.as_ref().zip(later.row.as_ref()).is_some_and(|(one, two)| one.seq < two.seq);
                if (seen || recorded) && place > later_place {
                    let why = if seen { "sent after its answer" } else { "accepted later" };
                    self.fault(Kind::Disorder, format!("{other} ({why}) was answered before {marker}"));
                }
            }
        }
    }

    /// Where in the journal the handoff's text stands for each message that has none but it. Whose a text of ManyChat's
    /// is, it does not say: the first is the oldest burst's, where there are as many as bursts. In an outage nobody can
    /// know what waits before a text that is told in time, and who sheds load does not look.
    fn places_of_handoffs(
        &self,
        contact: u32,
        cases: &[(&Marker, &Case)],
        delivered: &[Told],
    ) -> HashMap<Marker, usize> {
        let mut places = HashMap::new();
        let mut bursts: BTreeMap<i32, (String, Vec<Marker>)> = BTreeMap::new();
        for (marker, case) in cases {
            match (&case.told_handoff, &case.row) {
                (Some(told), Some(_)) if !self.facts.outage => drop(places.insert(**marker, told.place)),
                (None, Some(row)) if case.handoff => {
                    let known = bursts.values_mut().find(|(burst, _)| *burst == row.burst);
                    match known {
                        Some((_, markers)) => markers.push(**marker),
                        None => drop(bursts.insert(row.seq, (row.burst.clone(), vec![**marker]))),
                    }
                }
                _ => {}
            }
        }
        // A burst whose last message was told of it needs no text of ManyChat's.
        let told: BTreeSet<&String> = cases
            .iter()
            .filter(|(_, case)| case.told_handoff.is_some())
            .filter_map(|(_, case)| case.row.as_ref().map(|row| &row.burst))
            .collect();
        bursts.retain(|_, (burst, _)| !told.contains(burst));
        let of_none = self.recorded.get(&contact).map_or(0, |(_, of_none)| *of_none);
        if of_none == 0 && bursts.len() == delivered.len() {
            for ((_, markers), told) in bursts.into_values().zip(delivered) {
                places.extend(markers.into_iter().map(|marker| (marker, told.place)));
            }
        }
        places
    }

    fn judge_probe(&mut self, marker: Marker, case: &Case) {
        let Some((_, asked)) = case.asked.filter(|_| self.facts.probes.contains(&marker)) else { return };
        let delivered = self.delivered_handoffs.get(&marker.contact).into_iter().flatten();
        let delivered = delivered.filter(|told| case.handoff && told.at > asked);
        let heard = case.replies.iter().map(|(told, _)| told).chain(&case.told_handoff).chain(delivered);
        match heard.map(|told| told.at).min() {
            Some(at) if at <= asked + self.facts.lease => {}
            Some(at) => {
                self.fault(Kind::Silenced, format!("{marker} was heard only after {:?}", at - asked));
            }
            None => self.fault(Kind::Silenced, format!("{marker} was never heard")),
        }
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
