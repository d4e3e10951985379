//! The simulated API server: one Lease, its revisions, and its history for watches.

use std::rc::Rc;

use incumbent_core::{Record, Revision};

/// One change of the lock, as a watch tells it.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(Rc<Record>),
    Deleted(Revision),
}

impl Change {
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Change::Put(record) => record.revision,
            Change::Deleted(revision) => *revision,
        }
    }
}

/// What a write did, for those who check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Nothing: the object already was as written. No new revision, no event.
    Nothing,
    /// A new object.
    Created,
    /// A new object, by an update: what was to be updated had been deleted.
    CreatedByUpdate,
    /// A new state of the object.
    Updated,
}

/// Why a request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    NotFound,
    Conflict,
}

/// Where a watch begins.
#[derive(Debug)]
pub(crate) enum Replay {
    /// These changes follow.
    From(Vec<Change>),
    /// 410: history does not reach back so far.
    Gone,
}

/// One Lease in a store with one rising revision.
#[derive(Debug, Default)]
pub(crate) struct Api {
    lock: Option<Rc<Record>>,
    revision: u64,
    objects: u64,
    history: Vec<Change>,
    compacted: u64,
}

impl Api {
    pub(crate) fn get(&self) -> Option<&Rc<Record>> {
        self.lock.as_ref()
    }

    /// POST.
    pub(crate) fn create(&mut self, record: &Record) -> Result<(Rc<Record>, Effect), Denied> {
        if self.lock.is_some() {
            return Err(Denied::Conflict);
        }
        Ok((self.insert(record), Effect::Created))
    }

    /// PUT. An empty uid and a zero revision are no preconditions.
    pub(crate) fn update(&mut self, record: &Record) -> Result<(Rc<Record>, Effect), Denied> {
        let Some(lock) = &self.lock else {
            // A Lease may be created by an update; only a uid in it tells the server what was meant.
            if record.uid.is_empty() {
                return Ok((self.insert(record), Effect::CreatedByUpdate));
            }
            return Err(Denied::Conflict);
        };
        let uid = record.uid.is_empty() || record.uid == lock.uid;
        let revision = record.revision.0 == 0 || record.revision == lock.revision;
        if !uid || !revision {
            return Err(Denied::Conflict);
        }
        let mut next = record.clone();
        next.uid.clone_from(&lock.uid);
        Ok(self.store(next))
    }

    /// Merge patch of one annotation; a uid is a precondition.
    pub(crate) fn patch(
        &mut self,
        uid: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<(Rc<Record>, Effect), Denied> {
        let lock = self.lock.as_ref().ok_or(Denied::NotFound)?;
        if !uid.is_empty() && uid != lock.uid {
            return Err(Denied::Conflict);
        }
        let mut next = (**lock).clone();
        match value {
            Some(value) => next.annotations.insert(key.to_owned(), value.to_owned()),
            None => next.annotations.remove(key),
        };
        Ok(self.store(next))
    }

    pub(crate) fn delete(&mut self) -> Option<Revision> {
        self.lock.take()?;
        self.revision += 1;
        self.history.push(Change::Deleted(Revision(self.revision)));
        Some(Revision(self.revision))
    }

    /// Another object of the same store was written.
    pub(crate) fn write_elsewhere(&mut self, times: u64) {
        self.revision += times;
    }

    /// Forgets history up to the present.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
    }

    /// What a watch from a revision tells at first.
    pub(crate) fn replay(&self, from: Revision) -> Replay {
        if from.0 < self.compacted {
            return Replay::Gone;
        }
        let first = self.history.partition_point(|c| c.revision() <= from);
        Replay::From(self.history[first..].to_vec())
    }

    /// What a watch without a revision tells at first: the state of `stale` changes ago, and what followed.
    pub(crate) fn replay_present(&self, stale: usize) -> Vec<Change> {
        let at = self.history.len().saturating_sub(stale + 1);
        match self.history[at..].split_first() {
            Some((Change::Deleted(_), later)) => later.to_vec(),
            Some(_) => self.history[at..].to_vec(),
            None => Vec::new(),
        }
    }

    /// The newest change.
    pub(crate) fn last(&self) -> Option<&Change> {
        self.history.last()
    }

    fn insert(&mut self, record: &Record) -> Rc<Record> {
        self.objects += 1;
        let mut next = record.clone();
        next.uid = format!("uid-{}", self.objects);
        self.put(next)
    }

    fn store(&mut self, mut next: Record) -> (Rc<Record>, Effect) {
        if let Some(lock) = &self.lock {
            next.revision = lock.revision;
            if next == **lock {
                return (lock.clone(), Effect::Nothing);
            }
        }
        (self.put(next), Effect::Updated)
    }

    fn put(&mut self, mut next: Record) -> Rc<Record> {
        self.revision += 1;
        next.revision = Revision(self.revision);
        let next = Rc::new(next);
        self.history.push(Change::Put(next.clone()));
        self.lock = Some(next.clone());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(by: &str) -> Record {
        Record { holder: Some(by.into()), duration_seconds: Some(15), ..Record::default() }
    }

    #[test]
    fn a_creation_succeeds_once() {
        let mut api = Api::default();
        let (a, effect) = api.create(&held("a")).unwrap();
        assert_eq!(effect, Effect::Created);
        assert_eq!(api.create(&held("b")).unwrap_err(), Denied::Conflict);
        assert_eq!(api.get(), Some(&a));
    }

    #[test]
    fn an_update_needs_the_uid_and_revision_it_names() {
        let mut api = Api::default();
        let (first, _) = api.create(&held("a")).unwrap();
        let mut next = (*first).clone();
        next.holder = Some("b".into());
        let (second, effect) = api.update(&next).unwrap();
        assert_eq!(effect, Effect::Updated);
        assert!(second.revision > first.revision);
        next.holder = Some("c".into());
        assert_eq!(api.update(&next).unwrap_err(), Denied::Conflict, "old revision");
        next.revision = second.revision;
        next.uid = "another".into();
        assert_eq!(api.update(&next).unwrap_err(), Denied::Conflict, "another uid");
    }

    #[test]
    fn an_update_that_changes_nothing_has_no_revision_and_no_event() {
        let mut api = Api::default();
        let (first, _) = api.create(&held("a")).unwrap();
        let (same, effect) = api.update(&first).unwrap();
        assert_eq!((same.revision, effect), (first.revision, Effect::Nothing));
        assert!(matches!(api.replay(first.revision), Replay::From(v) if v.is_empty()));
    }

    #[test]
    fn an_update_of_a_deleted_lock_creates_it_unless_it_carries_a_uid() {
        let mut api = Api::default();
        let (first, _) = api.create(&held("a")).unwrap();
        let gone = api.delete().unwrap();
        assert_eq!(api.update(&first).unwrap_err(), Denied::Conflict);
        let (again, effect) = api.update(&Record { uid: String::new(), ..(*first).clone() }).unwrap();
        assert_eq!(effect, Effect::CreatedByUpdate);
        assert!(again.revision > gone && again.uid != first.uid);
    }

    #[test]
    fn a_patch_touches_one_annotation() {
        let mut api = Api::default();
        assert_eq!(api.patch("", "k", Some("v")).unwrap_err(), Denied::NotFound);
        let (first, _) = api.create(&held("a")).unwrap();
        assert_eq!(api.patch("other", "k", Some("v")).unwrap_err(), Denied::Conflict);
        let (patched, _) = api.patch(&first.uid, "k", Some("v")).unwrap();
        assert_eq!(patched.annotations.get("k").map(String::as_str), Some("v"));
        assert_eq!(api.patch(&first.uid, "k", Some("v")).unwrap().1, Effect::Nothing);
        assert!(api.patch(&first.uid, "k", None).unwrap().0.annotations.is_empty());
    }

    #[test]
    fn a_watch_tells_what_followed_or_that_history_is_gone() {
        let mut api = Api::default();
        assert!(api.replay_present(0).is_empty());
        let (first, _) = api.create(&held("a")).unwrap();
        api.write_elsewhere(3);
        let (second, _) = api.patch("", "k", Some("v")).unwrap();
        assert_eq!(second.revision.0, first.revision.0 + 4);
        let revisions = |replay| match replay {
            Replay::From(v) => v.iter().map(|c| c.revision().0).collect::<Vec<_>>(),
            Replay::Gone => vec![0],
        };
        assert_eq!(revisions(api.replay(first.revision)), [second.revision.0]);
        assert_eq!(api.replay_present(0).len(), 1);
        assert_eq!(api.replay_present(1).len(), 2);
        api.delete();
        assert!(api.replay_present(0).is_empty());
        api.compact();
        assert_eq!(revisions(api.replay(second.revision)), [0]);
        assert!(matches!(api.last(), Some(Change::Deleted(_))));
    }
}
