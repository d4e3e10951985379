//! The committed state in memory: the newest version of each object, and the changes that led there.
//!
//! Every backend that owns its data (not one that asks another server) is a [`State`] with something durable
//! in front of it. Reads never wait for the disk.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::watch::Watchers;
use super::{
    Action, Change, Condition, Event, Key, Page, PageRequest, Record, Retention, Scope, StoreError, Watch,
};

/// The committed state.
#[derive(Debug)]
pub(super) struct State {
    objects: BTreeMap<Key, Arc<Record>>,
    /// The newest changes, oldest first.
    log: VecDeque<Arc<Event>>,
    log_bytes: usize,
    /// Changes up to this revision were forgotten.
    compacted: u64,
    revision: u64,
    retention: Retention,
    watchers: Arc<Watchers>,
}

impl State {
    /// A state without objects at a revision; changes up to `compacted` are unknown.
    pub(super) fn new(retention: Retention, compacted: u64) -> Self {
        let watchers = Arc::new(Watchers::default());
        watchers.start_at(compacted);
        let revision = compacted;
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            compacted,
            revision,
            retention,
            watchers,
        }
    }

    /// Puts a version in place that was written before the log began. Only while a store is opened.
    pub(super) fn restore(&mut self, record: Record) {
        self.objects.insert(record.key.clone(), Arc::new(record));
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Record>> {
        self.objects.get(key)
    }

    /// The event that a change makes at a revision, if its condition holds for `current`.
    pub(super) fn judge(
        change: Change,
        current: Option<&Arc<Record>>,
        revision: u64,
    ) -> Result<Event, StoreError> {
        let holds = match change.condition {
            Condition::Absent => current.is_none() && change.action != Action::Delete,
            Condition::At(modified) => current.is_some_and(|record| record.modified == modified),
        };
        if !holds {
            return Err(StoreError::Conflict { key: change.key, current: current.cloned() });
        }
        let created = current.map_or(revision, |record| record.created);
        let next = match change.action {
            Action::Put(value) => {
                Some(Arc::new(Record { key: change.key, created, modified: revision, value }))
            }
            Action::Delete => None,
        };
        Ok(Event { revision, previous: current.cloned(), current: next })
    }

    /// Takes a committed change in and tells the watches. Returns the changes that are forgotten for it.
    pub(super) fn apply(&mut self, event: &Arc<Event>) -> Vec<Arc<Event>> {
        debug_assert!(event.revision > self.revision, "revisions rise");
        self.revision = event.revision;
        match &event.current {
            Some(record) => self.objects.insert(record.key.clone(), Arc::clone(record)),
            None => self.objects.remove(event.key()),
        };
        self.log.push_back(Arc::clone(event));
        self.log_bytes += cost(event);
        self.watchers.publish(event);
        self.trim()
    }

    /// What [`apply`](Self::apply) would forget if these changes were applied in turn, so that a backend can
    /// forget it in the same transaction.
    pub(super) fn forgets(&self, pending: &[Arc<Event>]) -> Vec<Arc<Event>> {
        let mut count = self.log.len() + pending.len();
        let mut bytes = self.log_bytes + pending.iter().map(|event| cost(event)).sum::<usize>();
        let mut forgotten = Vec::new();
        for event in self.log.iter().chain(pending) {
            if count <= self.retention.events && bytes <= self.retention.bytes {
                break;
            }
            count -= 1;
            bytes -= cost(event);
            forgotten.push(Arc::clone(event));
        }
        forgotten
    }

    fn trim(&mut self) -> Vec<Arc<Event>> {
        let forgotten = self.forgets(&[]);
        for event in &forgotten {
            self.log.pop_front();
            self.log_bytes -= cost(event);
            self.compacted = event.revision;
        }
        forgotten
    }

    pub(super) fn list(&self, request: &PageRequest) -> Result<Page, StoreError> {
        let revision = request.at.unwrap_or(self.revision);
        self.readable(revision)?;
        let mut records = self.newest(&request.scope);
        if revision < self.revision {
            self.rewind(&request.scope, revision, &mut records);
        }
        let after = match &request.after {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Unbounded,
        };
        let total = records.range((after.clone(), Bound::Unbounded)).count();
        let limit = request.limit.unwrap_or(total);
        let records: Vec<_> = records
            .range((after, Bound::Unbounded))
            .take(limit)
            .map(|(_, record)| Arc::clone(record))
            .collect();
        Ok(Page { revision, remaining: total - records.len(), records })
    }

    fn readable(&self, requested: u64) -> Result<(), StoreError> {
        if requested > self.revision {
            return Err(StoreError::Future { requested, current: self.revision });
        }
        if requested < self.compacted {
            return Err(StoreError::Compacted { requested, oldest: self.compacted });
        }
        Ok(())
    }

    fn newest(&self, scope: &Scope) -> BTreeMap<Key, Arc<Record>> {
        match scope {
            Scope::One(key) => self.objects.get_key_value(key).into_iter().map(owned).collect(),
            Scope::Under(prefix) => {
                // Keys are ordered as their text, so that those of a scope are neighbours.
                let from = Key::from_prefix(prefix);
                self.objects.range(from..).take_while(|(key, _)| scope.contains(key)).map(owned).collect()
            }
        }
    }

    /// Undoes the changes after a revision.
    fn rewind(&self, scope: &Scope, to: u64, records: &mut BTreeMap<Key, Arc<Record>>) {
        let later = self.log.iter().rev().take_while(|event| event.revision > to);
        for event in later.filter(|event| scope.contains(event.key())) {
            match &event.previous {
                Some(record) => records.insert(record.key.clone(), Arc::clone(record)),
                None => records.remove(event.key()),
            };
        }
    }

    pub(super) fn watch(&self, scope: Scope, since: u64) -> Result<Watch, StoreError> {
        if since < self.compacted {
            return Err(StoreError::Compacted { requested: since, oldest: self.compacted });
        }
        let first = self.log.partition_point(|event| event.revision <= since);
        let backlog = self.log.range(first..).filter(|event| scope.contains(event.key())).cloned().collect();
        Ok(self.watchers.add(scope, backlog))
    }

    /// Ends all watches.
    pub(super) fn close(&self) {
        self.watchers.close();
    }
}

fn owned((key, record): (&Key, &Arc<Record>)) -> (Key, Arc<Record>) {
    (key.clone(), Arc::clone(record))
}

/// What a change costs in the log, in bytes, roughly.
fn cost(event: &Event) -> usize {
    const OVERHEAD: usize = 128;
    OVERHEAD
        + event.latest().key.as_str().len()
        + event.current.as_ref().map_or(0, |record| record.value.len())
}
