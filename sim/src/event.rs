//! What is going to happen, ordered by true time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use incumbent_core::{OpId, Outcome, Record, Revision, WorkEnd};

use crate::clock::Time;

/// One process of ours: its slot, and which of the processes that ran there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Proc {
    pub(crate) slot: usize,
    pub(crate) life: u32,
}

/// To whom an answer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ticket {
    Node(Proc, OpId),
    Watch(Proc, u64),
    Plain { index: usize, attempt: u64 },
}

/// What a request asks for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Get,
    Create(Record),
    Update(Record),
    Patch { uid: String, key: String, value: Option<String> },
    Watch { from: Option<Revision> },
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) ticket: Ticket,
    pub(crate) ask: Ask,
    /// A duplicate: nobody hears its answer.
    pub(crate) muted: bool,
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Opened,
    Changed(Rc<Record>),
    Deleted(Revision),
    Broken,
    Refused,
}

#[derive(Debug)]
pub(crate) enum Event {
    Arrive(Box<Flight>),
    Answer(Ticket, Box<Outcome>),
    Tell {
        at: Proc,
        watch: u64,
        told: Told,
    },
    Wake {
        at: Proc,
        generation: u64,
    },
    /// Whoever guards the work looks whether it has outlived its hard end.
    Look {
        at: Proc,
        term: u64,
    },
    Kill {
        at: Proc,
        term: u64,
    },
    Dies {
        at: Proc,
        term: u64,
    },
    Ends {
        at: Proc,
        term: u64,
        end: WorkEnd,
    },
    Resume {
        at: Proc,
    },
    Warmed {
        at: Proc,
    },
    ReadyAgain {
        at: Proc,
    },
    Start {
        slot: usize,
    },
    PlainTick {
        index: usize,
        attempt: u64,
    },
    PlainDeadline {
        index: usize,
    },
    PlainRelease {
        index: usize,
    },
    PlainBack {
        index: usize,
    },
    Act,
    Coordinate,
    Quiet,
}

impl Event {
    /// A number for the digest.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Event::Arrive(_) => 1,
            Event::Answer(..) => 2,
            Event::Tell { .. } => 3,
            Event::Wake { .. } => 4,
            Event::Look { .. } => 5,
            Event::Kill { .. } => 6,
            Event::Dies { .. } => 7,
            Event::Ends { .. } => 8,
            Event::Resume { .. } => 9,
            Event::Warmed { .. } => 10,
            Event::ReadyAgain { .. } => 11,
            Event::Start { .. } => 12,
            Event::PlainTick { .. } => 13,
            Event::PlainDeadline { .. } => 14,
            Event::PlainRelease { .. } => 15,
            Event::PlainBack { .. } => 16,
            Event::Act => 17,
            Event::Coordinate => 18,
            Event::Quiet => 19,
        }
    }
}

#[derive(Debug)]
struct Entry {
    at: Time,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Events in order of time; those of one instant in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    added: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.added += 1;
        self.heap.push(Reverse(Entry { at, order: self.added, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse(e)| (e.at, e.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_addition() {
        let mut queue = Queue::default();
        for (at, slot) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            queue.push(at, Event::Start { slot });
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|(at, e)| match e {
                Event::Start { slot } => (at, slot),
                _ => unreachable!(),
            })
            .collect();
        assert_eq!(order, [(3, 1), (3, 3), (5, 0), (5, 2)]);
    }
}
