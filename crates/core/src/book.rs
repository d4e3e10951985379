//! The candidates of a lock as one judge knows them (docs/protocol.md §7): what they announced, and since
//! when nothing was heard of them, on the judge's own clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::candidate::{self, Candidate};
use crate::rank::{Contender, Ineligible};
use crate::record::Record;
use crate::time::Instant;

/// A candidate whose record has not changed for this long is not chosen.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(30 * 60);
/// A candidate whose record has not changed for this long is removed.
const DEAD_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
struct Entry {
    text: String,
    candidate: Candidate,
    changed: Instant,
    missed_ping: bool,
}

/// All candidates seen on the lock, by annotation.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<String, Entry>,
}

impl Book {
    /// Takes in the candidates that stand on the lock now.
    pub(crate) fn update(&mut self, record: &Record, now: Instant) {
        let on_lock = record.annotations.range(candidate::CANDIDATE_PREFIX.to_owned()..);
        let on_lock = on_lock.take_while(|(key, _)| key.starts_with(candidate::CANDIDATE_PREFIX));
        self.entries.retain(|key, _| record.annotations.contains_key(key));
        for (key, text) in on_lock {
            if self.entries.get(key).is_some_and(|e| e.text == *text) {
                continue;
            }
            match Candidate::from_annotation(text) {
                Some(candidate) => {
                    let entry = Entry { text: text.clone(), candidate, changed: now, missed_ping: false };
                    self.entries.insert(key.clone(), entry);
                }
                None => {
                    self.entries.remove(key);
                }
            }
        }
    }

    /// All candidates with what is held against them.
    pub(crate) fn contenders(&self, now: Instant) -> impl Iterator<Item = Contender> {
        self.entries.values().map(move |entry| Contender {
            candidate: entry.candidate.clone(),
            observed: if entry.missed_ping {
                Some(Ineligible::MissedPing)
            } else if now.since(entry.changed) >= SILENT_AFTER {
                Some(Ineligible::Silent)
            } else {
                None
            },
        })
    }

    /// Notes that a candidate did not answer. It counts again as soon as its record changes.
    pub(crate) fn missed_ping(&mut self, identity: &str) {
        for entry in self.entries.values_mut().filter(|e| e.candidate.identity == identity) {
            entry.missed_ping = true;
        }
    }

    /// The annotations of candidates that have been dead for an hour, but for `own`.
    pub(crate) fn dead<'b>(&'b self, own: &'b str, now: Instant) -> impl Iterator<Item = &'b str> {
        self.entries
            .iter()
            .filter(move |(key, e)| key.as_str() != own && now.since(e.changed) >= DEAD_AFTER)
            .map(|(key, _)| key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(text: &str) -> Record {
        Record {
            annotations: [(format!("{}k", candidate::CANDIDATE_PREFIX), text.to_owned())].into(),
            ..Record::default()
        }
    }

    #[test]
    fn silence_is_counted_on_our_own_clock_from_the_last_change() {
        let mut book = Book::default();
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        book.update(&lock(r#"{"id":"k","beat":1}"#), at(0));
        book.update(&lock(r#"{"id":"k","beat":1}"#), at(100));
        let observed = |book: &Book, t| book.contenders(at(t)).next().unwrap().observed;
        assert_eq!(observed(&book, 1799), None);
        assert_eq!(observed(&book, 1800), Some(Ineligible::Silent));
        assert_eq!(book.dead("x", at(3600)).count(), 1);
        book.update(&lock(r#"{"id":"k","beat":2}"#), at(3600));
        assert_eq!(observed(&book, 3600), None);
        assert_eq!(book.dead("x", at(3600)).count(), 0);
        book.missed_ping("k");
        assert_eq!(observed(&book, 3600), Some(Ineligible::MissedPing));
        book.update(&lock(r#"{"id":"k","beat":3}"#), at(3601));
        assert_eq!(observed(&book, 3601), None);
        book.update(&Record::default(), at(3602));
        assert_eq!(book.contenders(at(3602)).count(), 0);
    }
}
