//! Candidate records: what a process that offers to hold the lock announces in an annotation of the lock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
pub(crate) use crate::marks::CANDIDATE_PREFIX;
use crate::record::{Record, Revision};
use crate::strategy::Strategy;
use crate::time::WallTime;
use crate::version::Versions;

/// What a candidate says of its own readiness. Whoever is not ready is not chosen and answers no ping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readiness {
    /// Offers to lead.
    #[default]
    Ready,
    /// Waits after a failure or a yield.
    Backoff,
    /// Is shutting down.
    Stopping,
    /// Was paused or declared ineligible by its owner.
    Paused,
}

/// One candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The whole identity.
    pub identity: String,
    /// Versions, if it announced any that can be read.
    pub versions: Option<Versions>,
    /// Strategies in order of preference.
    pub strategies: Vec<Strategy>,
    /// Higher comes first; zero is none.
    pub priority: u32,
    /// Until when the priority counts, by wall clock; `None`: as long as the record.
    pub priority_until: Option<WallTime>,
    /// Has done its warm-up.
    pub warm: bool,
    /// Where others can reach it.
    pub address: Option<String>,
    /// Free-form labels.
    pub labels: BTreeMap<String, String>,
    /// Not to be chosen before this time of the decider's wall clock.
    pub not_before: Option<WallTime>,
    /// What it says of itself.
    pub readiness: Readiness,
    /// The lock's revision when it first announced itself: its age, in terms that no clock can falsify.
    pub since: Revision,
    /// The last ping it answered.
    pub ack: Option<String>,
    /// Counts the periodic renewals of this record.
    pub beat: u64,
}

/// The compact form in the annotation.
#[derive(Serialize, Deserialize)]
struct Wire {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ev: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    st: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    prio: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    warm: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    addr: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "is_ready")]
    state: Readiness,
    #[serde(default)]
    since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ack: Option<String>,
    #[serde(default)]
    beat: u64,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_ready(r: &Readiness) -> bool {
    *r == Readiness::Ready
}

impl Candidate {
    /// The annotation's value: one line of JSON.
    pub fn to_annotation(&self) -> String {
        let wire = Wire {
            id: self.identity.clone(),
            bv: self.versions.as_ref().map(|v| v.binary().to_string()),
            ev: self.versions.as_ref().map(|v| v.emulation().to_string()),
            st: self.strategies.iter().map(ToString::to_string).collect(),
            prio: self.priority,
            until: self.priority_until.map(|t| t.to_string()),
            warm: self.warm,
            addr: self.address.clone(),
            labels: self.labels.clone(),
            after: self.not_before.map(|t| t.to_string()),
            state: self.readiness,
            since: self.since.0,
            ack: self.ack.clone(),
            beat: self.beat,
        };
        // A struct of strings and numbers always serialises; the fallback only avoids a panic path.
        serde_json::to_string(&wire).unwrap_or_default()
    }

    /// Reads an annotation's value. `None` if it is not a candidate record.
    ///
    /// A record with versions or strategies that cannot be read is a candidate without them: it can still
    /// lead, and is ranked behind those that can be compared.
    pub fn from_annotation(value: &str) -> Option<Candidate> {
        let wire: Wire = serde_json::from_str(value).ok()?;
        if wire.id.is_empty() {
            return None;
        }
        Some(Candidate {
            identity: wire.id,
            versions: wire.bv.and_then(|b| Versions::parse(&b, wire.ev.as_deref()).ok()),
            strategies: wire.st.iter().filter_map(|s| s.parse().ok()).collect(),
            priority: wire.prio,
            priority_until: wire.until.as_deref().and_then(WallTime::parse),
            warm: wire.warm,
            address: wire.addr,
            labels: wire.labels,
            not_before: wire.after.as_deref().and_then(WallTime::parse),
            readiness: wire.state,
            since: Revision(wire.since),
            ack: wire.ack,
            beat: wire.beat,
        })
    }
}

/// The annotation under which a candidate's record stands: the identity where it fits into an annotation's
/// name (63 characters), else its beginning and a hash of it.
pub fn annotation_key(identity: &Identity) -> String {
    let id = identity.as_str();
    if id.len() <= 63 {
        return format!("{CANDIDATE_PREFIX}{id}");
    }
    // FNV-1a: short and stable over versions. The identity's own 64 random bits make it unique.
    let hash =
        id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let prefix: String = id.chars().take(46).collect();
    format!("{CANDIDATE_PREFIX}{prefix}_{hash:016x}")
}

/// All candidate records on a lock, with the annotation each stands in, ordered by annotation.
pub fn on_lock(record: &Record) -> impl Iterator<Item = (&str, Candidate)> {
    record
        .annotations
        .range(CANDIDATE_PREFIX.to_owned()..)
        .take_while(|(key, _)| key.starts_with(CANDIDATE_PREFIX))
        .filter_map(|(key, value)| Some((key.as_str(), Candidate::from_annotation(value)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            identity: "a_0000000000000001".into(),
            versions: Some(Versions::parse("1.31.0", Some("1.30.0")).unwrap()),
            strategies: vec![Strategy::OldestEmulationVersion, Strategy::ThirdParty("example.com/x".into())],
            priority: 7,
            priority_until: WallTime::parse("2026-01-01T00:00:00.000001Z"),
            warm: true,
            address: Some("10.0.0.1:80".into()),
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            not_before: WallTime::parse("2026-01-01T00:00:00.000002Z"),
            readiness: Readiness::Backoff,
            since: Revision(9),
            ack: Some("b_1/3".into()),
            beat: 4,
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let c = candidate();
        assert_eq!(Candidate::from_annotation(&c.to_annotation()), Some(c));
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_the_rest_counts() {
        let c = Candidate::from_annotation(
            r#"{"id":"x","bv":"v1","st":["nope","OldestEmulationVersion"],"new":1}"#,
        )
        .unwrap();
        assert_eq!(c.versions, None);
        assert_eq!(c.strategies, [Strategy::OldestEmulationVersion]);
        for bad in ["", "{}", "[]", r#"{"id":""}"#, r#"{"id":3}"#] {
            assert_eq!(Candidate::from_annotation(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_fit_an_annotation_name_and_stay_apart() {
        let short = Identity::new("web", 1).unwrap();
        assert_eq!(annotation_key(&short), "candidate.incumbent.dev/web_0000000000000001");
        let long = |n| annotation_key(&Identity::new(&"x".repeat(200), n).unwrap());
        let name = |key: &str| key.strip_prefix(CANDIDATE_PREFIX).unwrap().to_owned();
        assert_eq!(name(&long(1)).len(), 63);
        assert_ne!(long(1), long(2));
    }

    #[test]
    fn only_candidate_annotations_are_read() {
        let mut record = Record::default();
        record.annotations.insert("a".into(), "b".into());
        record.annotations.insert(format!("{CANDIDATE_PREFIX}k"), candidate().to_annotation());
        record.annotations.insert(format!("{CANDIDATE_PREFIX}bad"), "nonsense".into());
        record.annotations.insert("zzz".into(), "b".into());
        let found: Vec<_> = on_lock(&record).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "candidate.incumbent.dev/k");
    }
}
