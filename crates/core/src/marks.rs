//! What stands in a lock's annotations: marks, designation, ping.
//!
//! A mark is tied to the record it was written in by that record's acquireTime, because other clients keep
//! annotations when they rewrite a lock: an old mark survives, but no longer counts.

use std::time::Duration;

use crate::record::Record;
use crate::time::WallTime;
use crate::timing::LONGEST_LEASE;

/// `<identity>/<its P>`: the last holder of ours that wrote this lock.
pub const HOLDER: &str = "incumbent.dev/holder";
/// `<identity>/<acquireTime>`: this record is a release by a holder whose work had ended.
pub const RELEASED: &str = "incumbent.dev/released";
/// `<successor>/<acquireTime>`: this record is a transfer by a holder whose work had ended.
pub const TRANSFERRED: &str = "incumbent.dev/transferred";
/// `<successor>/<acquireTime of the tenure>`: who will be handed the lock once the holder's work has ended.
pub const DESIGNATED: &str = "incumbent.dev/designated";
/// `<identity>/<n>`: the decider asks every candidate to answer with this value.
pub const PING: &str = "incumbent.dev/ping";
/// The strategy that an operator set for this lock; `none` switches coordination off.
pub const STRATEGY: &str = "incumbent.dev/strategy";
/// Candidate records: one annotation each below this prefix.
pub const CANDIDATE_PREFIX: &str = "candidate.incumbent.dev/";

/// Writes `<who>/<when>`.
pub fn stamped(who: &str, when: WallTime) -> String {
    format!("{who}/{when}")
}

/// Reads `<who>/<when>`.
pub fn parse_stamped(value: &str) -> Option<(&str, WallTime)> {
    let (who, when) = value.rsplit_once('/')?;
    Some((who, WallTime::parse(when)?)).filter(|_| !who.is_empty())
}

/// Writes the `holder:` annotation.
pub fn holder_value(identity: &str, seconds: u16) -> String {
    format!("{identity}/{seconds}")
}

/// The last holder of ours that wrote this lock, and the duration it works with.
pub fn holder(record: &Record) -> Option<(&str, Duration)> {
    let (who, seconds) = record.annotations.get(HOLDER)?.rsplit_once('/')?;
    let seconds: u64 = seconds.parse().ok().filter(|s| *s > 0)?;
    Some((who, Duration::from_secs(seconds).min(LONGEST_LEASE))).filter(|_| !who.is_empty())
}

fn mark_of_this_record<'r>(record: &'r Record, key: &str) -> Option<&'r str> {
    let (who, when) = parse_stamped(record.annotations.get(key)?)?;
    (record.acquire_time == Some(when)).then_some(who)
}

/// The identity that released this lock with all its work ended, if this record is such a release.
pub fn released(record: &Record) -> Option<&str> {
    if record.holder().is_some() {
        return None;
    }
    mark_of_this_record(record, RELEASED).filter(|who| holder(record).is_some_and(|(h, _)| h == *who))
}

/// The successor that was handed this lock by a holder whose work had ended, as long as the successor has not
/// renewed it.
pub fn transferred(record: &Record) -> Option<&str> {
    let successor = mark_of_this_record(record, TRANSFERRED)?;
    let not_yet_renewed = holder(record).is_some_and(|(h, _)| h != successor);
    (record.holder() == Some(successor) && not_yet_renewed).then_some(successor)
}

/// The successor designated in the current tenure.
pub fn designated(record: &Record) -> Option<&str> {
    mark_of_this_record(record, DESIGNATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, annotations: &[(&str, &str)]) -> Record {
        Record {
            holder: Some(holder.to_owned()),
            acquire_time: WallTime::parse("2026-01-01T00:00:00.000001Z"),
            annotations: annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Record::default()
        }
    }

    #[test]
    fn a_mark_counts_only_in_the_record_it_was_written_in() {
        let now = "2026-01-01T00:00:00.000001Z";
        let old = "2026-01-01T00:00:00.000000Z";
        let mark = |t: &str| format!("a/{t}");
        assert_eq!(released(&record("", &[(RELEASED, &mark(now)), (HOLDER, "a/15")])), Some("a"));
        assert_eq!(released(&record("", &[(RELEASED, &mark(old)), (HOLDER, "a/15")])), None);
        // A release mark needs its identity to be that of `holder:`; a lock that is held is not released.
        assert_eq!(released(&record("", &[(RELEASED, &mark(now)), (HOLDER, "b/15")])), None);
        assert_eq!(released(&record("a", &[(RELEASED, &mark(now)), (HOLDER, "a/15")])), None);
    }

    #[test]
    fn a_transfer_is_over_once_the_successor_has_renewed() {
        let mark = "b/2026-01-01T00:00:00.000001Z";
        assert_eq!(transferred(&record("b", &[(TRANSFERRED, mark), (HOLDER, "a/15")])), Some("b"));
        assert_eq!(transferred(&record("b", &[(TRANSFERRED, mark), (HOLDER, "b/15")])), None);
        assert_eq!(transferred(&record("c", &[(TRANSFERRED, mark), (HOLDER, "a/15")])), None);
        assert_eq!(transferred(&record("b", &[(TRANSFERRED, mark)])), None);
    }

    #[test]
    fn nonsense_in_annotations_is_no_mark() {
        for bad in ["", "/", "a", "a/", "/2026-01-01T00:00:00.000001Z", "a/now"] {
            assert_eq!(parse_stamped(bad), None, "{bad}");
        }
        for bad in ["", "a", "a/", "/15", "a/0", "a/-1", "a/1.5"] {
            assert_eq!(holder(&record("", &[(HOLDER, bad)])), None, "{bad}");
        }
        assert_eq!(holder(&record("", &[(HOLDER, "a/99999")])), Some(("a", LONGEST_LEASE)));
    }
}
