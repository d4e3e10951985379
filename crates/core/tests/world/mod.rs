//! A lock that answers at once, and the processes that contend for it, in simulated time.

use std::collections::VecDeque;
use std::time::Duration;

use incumbent_core::candidate::{self, Candidate};
use incumbent_core::*;

/// What the work of a process does when its term is cancelled.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    EndsAfter(Duration),
}

struct Node {
    elector: Elector,
    identity: String,
    wall_offset: i64,
    alive: bool,
    cut: bool,
    finished: bool,
    work: Work,
    ends_at: Option<Instant>,
    inbox: VecDeque<Input>,
    watching: bool,
    terms: Vec<TermStart>,
    stops: Vec<StopReason>,
    requests: usize,
    warm_ups: usize,
    reports: Vec<Report>,
}

pub(crate) struct World {
    now: Instant,
    revision: u64,
    uids: u64,
    lock: Option<Record>,
    nodes: Vec<Node>,
    patch: bool,
    watch: bool,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            now: Instant::from_nanos(1),
            revision: 100,
            uids: 0,
            lock: None,
            nodes: Vec::new(),
            patch: true,
            watch: true,
        }
    }

    pub(crate) fn join(&mut self, name: &str, version: &str) -> usize {
        self.join_with(name, version, "OldestEmulationVersion")
    }

    pub(crate) fn join_with(&mut self, name: &str, version: &str, strategy: &str) -> usize {
        self.add(name, version, strategy, false)
    }

    pub(crate) fn join_warming(&mut self, name: &str, version: &str) -> usize {
        self.add(name, version, "OldestEmulationVersion", true)
    }

    fn add(&mut self, name: &str, version: &str, strategy: &str, warms_up: bool) -> usize {
        let identity = Identity::new(name, self.nodes.len() as u64 + 1).unwrap();
        let candidacy = Candidacy {
            versions: Some(Versions::parse(version, None).unwrap()),
            strategies: vec![strategy.parse().unwrap()],
            warms_up,
            ..Candidacy::default()
        };
        let config = Config::new(identity.clone(), TimingConfig::default().check().unwrap(), candidacy);
        let wall_offset = 1_700_000_000_000_000 + self.nodes.len() as i64 * 3_600_000_000;
        let now = Now { mono: self.now, wall: WallTime::from_micros(wall_offset) };
        self.nodes.push(Node {
            elector: Elector::new(config, now, 7),
            identity: identity.to_string(),
            wall_offset,
            alive: true,
            cut: false,
            finished: false,
            work: Work::EndsAfter(Duration::ZERO),
            ends_at: None,
            inbox: VecDeque::new(),
            watching: false,
            terms: Vec::new(),
            stops: Vec::new(),
            requests: 0,
            warm_ups: 0,
            reports: Vec::new(),
        });
        self.nodes.len() - 1
    }

    /// Lets time pass, in steps to the next thing that is due.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..200_000 {
            self.settle();
            let due = self
                .nodes
                .iter()
                .filter(|n| n.alive && !n.finished)
                .flat_map(|n| [n.elector.next_wake(), n.ends_at])
                .flatten()
                .min();
            match due {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => {
                    self.now = end;
                    return;
                }
            }
            for i in 0..self.nodes.len() {
                let node = &mut self.nodes[i];
                if node.ends_at.is_some_and(|t| t <= self.now) {
                    node.ends_at = None;
                    node.inbox.push_back(Input::WorkEnded(WorkEnd::Done));
                }
                if node.alive && !node.finished && node.elector.next_wake().is_some_and(|w| w <= self.now) {
                    node.inbox.push_back(Input::Wake);
                }
            }
        }
        panic!("the world does not come to rest");
    }

    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "electors talk without end");
            let Some(i) = (0..self.nodes.len()).find(|i| !self.nodes[*i].inbox.is_empty()) else { return };
            let input = self.nodes[i].inbox.pop_front().unwrap();
            self.feed(i, input);
        }
    }

    fn feed(&mut self, i: usize, input: Input) {
        if !self.nodes[i].alive || self.nodes[i].finished {
            return;
        }
        let now = self.clock(i);
        for command in self.nodes[i].elector.handle(now, input) {
            self.obey(i, command);
        }
    }

    fn clock(&self, i: usize) -> Now {
        let micros = (self.now.as_nanos() / 1000) as i64;
        Now { mono: self.now, wall: WallTime::from_micros(self.nodes[i].wall_offset + micros) }
    }

    fn obey(&mut self, i: usize, command: Command) {
        let node = &mut self.nodes[i];
        match command {
            Command::StartTerm(start) => node.terms.push(start),
            Command::StopTerm(stop) => {
                node.stops.push(stop.reason);
                let Work::EndsAfter(d) = node.work;
                node.ends_at.get_or_insert(self.now + d);
            }
            Command::Abort => panic!("work outlived its term"),
            Command::WarmUp => node.warm_ups += 1,
            Command::Finished => node.finished = true,
            Command::Extend(_) => {}
            Command::Report(report) => node.reports.push(report),
            Command::Watch { .. } if node.cut => node.inbox.push_back(Input::Watch(WatchInput::Broken)),
            Command::Watch { .. } if !self.watch => {
                node.inbox.push_back(Input::Watch(WatchInput::Refused("not allowed".into())));
            }
            Command::Watch { from } => {
                node.watching = true;
                node.inbox.push_back(Input::Watch(WatchInput::Opened));
                if let Some(lock) = self.lock.clone().filter(|l| from.is_none_or(|f| l.revision > f)) {
                    node.inbox.push_back(Input::Watch(WatchInput::Changed(lock)));
                }
            }
            Command::Read { op, .. } => {
                self.answer(i, op, |w| w.lock.clone().map_or(Outcome::NotFound, Outcome::Ok))
            }
            Command::Create { op, record, .. } => self.answer(i, op, |w| match &w.lock {
                Some(_) => Outcome::Conflict,
                None => {
                    w.uids += 1;
                    Outcome::Ok(w.store(Record { uid: format!("uid-{}", w.uids), ..record }))
                }
            }),
            Command::Update { op, record, .. } => self.answer(i, op, |w| match &w.lock {
                Some(l) if l.uid == record.uid && l.revision == record.revision => {
                    Outcome::Ok(w.store(record))
                }
                _ => Outcome::Conflict,
            }),
            Command::Patch { op, .. } if !self.patch => self.answer(i, op, |_| Outcome::Refused {
                refusal: Refusal::Forbidden,
                message: "may not patch".into(),
                retry_after: None,
            }),
            Command::Patch { op, uid, key, value, .. } => self.answer(i, op, |w| match w.lock.clone() {
                None => Outcome::NotFound,
                Some(l) if l.uid != uid => Outcome::Conflict,
                Some(mut l) => {
                    match value {
                        Some(value) => l.annotations.insert(key, value),
                        None => l.annotations.remove(&key),
                    };
                    Outcome::Ok(w.store(l))
                }
            }),
        }
    }

    fn answer(&mut self, i: usize, op: OpId, how: impl FnOnce(&mut World) -> Outcome) {
        self.nodes[i].requests += 1;
        if self.nodes[i].cut {
            return;
        }
        let outcome = how(self);
        self.nodes[i].inbox.push_back(Input::Answer { op, outcome });
    }

    fn store(&mut self, mut record: Record) -> Record {
        if self.lock.as_ref().is_some_and(|l| Record { revision: l.revision, ..record.clone() } == *l) {
            return record;
        }
        self.revision += 1;
        record.revision = Revision(self.revision);
        self.lock = Some(record.clone());
        for node in self.nodes.iter_mut().filter(|n| n.watching && !n.cut) {
            node.inbox.push_back(Input::Watch(WatchInput::Changed(record.clone())));
        }
        record
    }

    pub(crate) fn edit(&mut self, how: impl FnOnce(&mut Record)) {
        let mut record = self.lock().clone();
        how(&mut record);
        self.store(record);
    }

    pub(crate) fn delete_lock(&mut self) {
        self.revision += 1;
        self.lock = None;
        for node in self.nodes.iter_mut().filter(|n| n.watching && !n.cut) {
            node.inbox.push_back(Input::Watch(WatchInput::Deleted(Revision(self.revision))));
        }
    }

    pub(crate) fn request(&mut self, i: usize, request: Request) {
        self.feed(i, Input::Request(request));
    }

    pub(crate) fn end_work(&mut self, i: usize, how: WorkEnd) {
        self.feed(i, Input::WorkEnded(how));
        self.nodes[i].ends_at = None;
    }

    pub(crate) fn crash(&mut self, i: usize) {
        self.nodes[i].alive = false;
    }

    pub(crate) fn cut(&mut self, i: usize, cut: bool) {
        self.nodes[i].cut = cut;
        if cut {
            self.nodes[i].watching = false;
            self.nodes[i].inbox.push_back(Input::Watch(WatchInput::Broken));
        }
    }

    pub(crate) fn jump_wall(&mut self, i: usize, seconds: i64) {
        self.nodes[i].wall_offset += seconds * 1_000_000;
    }

    pub(crate) fn work(&mut self, i: usize, work: Work) {
        self.nodes[i].work = work;
    }

    pub(crate) fn allow_patch(&mut self, allow: bool) {
        self.patch = allow;
    }

    pub(crate) fn allow_watch(&mut self, allow: bool) {
        self.watch = allow;
    }

    pub(crate) fn lock(&self) -> &Record {
        self.lock.as_ref().unwrap()
    }

    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        candidate::on_lock(self.lock()).map(|(_, c)| c).collect()
    }

    pub(crate) fn leads(&self, i: usize) -> bool {
        self.nodes[i].alive && self.nodes[i].elector.is_leader(self.now)
    }

    pub(crate) fn role(&self, i: usize) -> Role {
        self.nodes[i].elector.role(self.now)
    }

    pub(crate) fn identity(&self, i: usize) -> String {
        self.nodes[i].identity.clone()
    }

    pub(crate) fn terms(&self, i: usize) -> usize {
        self.nodes[i].terms.len()
    }

    pub(crate) fn token(&self, i: usize) -> FencingToken {
        self.nodes[i].terms.last().unwrap().token
    }

    pub(crate) fn stops(&self, i: usize) -> &[StopReason] {
        &self.nodes[i].stops
    }

    pub(crate) fn requests(&self, i: usize) -> usize {
        self.nodes[i].requests
    }

    pub(crate) fn reported(&self, i: usize, report: &Report) -> bool {
        self.nodes[i].reports.contains(report)
    }

    pub(crate) fn warm_ups(&self, i: usize) -> usize {
        self.nodes[i].warm_ups
    }

    pub(crate) fn finished(&self, i: usize) -> bool {
        self.nodes[i].finished
    }
}
