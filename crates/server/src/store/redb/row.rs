//! One row of the history: what a commit wrote, as bytes.
//!
//! `kind: u8 (0 written, 1 deleted) | created: u64 | length of key: u32 | key | value`, numbers little-endian.
//! The revision is the key of the row.

use std::sync::Arc;

use bytes::Bytes;

use crate::store::{Event, Key, Record};

const WRITTEN: u8 = 0;
const DELETED: u8 = 1;

/// A row that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    Written(Record),
    Deleted(Key),
}

/// The row of a change.
pub(super) fn encode(event: &Event) -> Vec<u8> {
    let (kind, created, value) = match &event.current {
        Some(record) => (WRITTEN, record.created, &record.value[..]),
        None => (DELETED, 0, &[][..]),
    };
    let key = event.key().as_str().as_bytes();
    let mut row = Vec::with_capacity(13 + key.len() + value.len());
    row.push(kind);
    row.extend_from_slice(&created.to_le_bytes());
    // A key is made of three names of at most 253 characters.
    row.extend_from_slice(&(key.len() as u32).to_le_bytes());
    row.extend_from_slice(key);
    row.extend_from_slice(value);
    row
}

/// The row that a revision wrote; none if it makes no sense.
pub(super) fn decode(revision: u64, row: &[u8]) -> Option<Row> {
    let (kind, row) = row.split_first()?;
    let (created, row) = row.split_first_chunk::<8>()?;
    let (length, row) = row.split_first_chunk::<4>()?;
    let (key, value) = row.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let key = Key::parse(std::str::from_utf8(key).ok()?)?;
    match *kind {
        WRITTEN => Some(Row::Written(Record {
            key,
            created: u64::from_le_bytes(*created),
            modified: revision,
            value: Bytes::copy_from_slice(value),
        })),
        DELETED => Some(Row::Deleted(key)),
        _ => None,
    }
}

impl Row {
    /// The change that it was, given the version before it.
    pub(super) fn into_event(self, revision: u64, previous: Option<Arc<Record>>) -> Option<Event> {
        let current = match self {
            Self::Written(record) => Some(Arc::new(record)),
            Self::Deleted(_) => {
                previous.as_ref()?;
                None
            }
        };
        Some(Event { revision, previous, current })
    }

    pub(super) fn key(&self) -> &Key {
        match self {
            Self::Written(record) => &record.key,
            Self::Deleted(key) => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(modified: u64, value: &'static [u8]) -> Arc<Record> {
        let key = Key::new("leases", "default", "a");
        Arc::new(Record { key, created: 3, modified, value: Bytes::from_static(value) })
    }

    #[test]
    fn a_written_row_round_trips() {
        let event = Event { revision: 7, previous: Some(record(3, b"x")), current: Some(record(7, b"yz")) };
        let row = decode(7, &encode(&event)).unwrap();
        assert_eq!(row.into_event(7, Some(record(3, b"x"))).unwrap(), event);
    }

    #[test]
    fn a_deleted_row_round_trips() {
        let event = Event { revision: 9, previous: Some(record(7, b"yz")), current: None };
        let row = decode(9, &encode(&event)).unwrap();
        assert_eq!(row.into_event(9, Some(record(7, b"yz"))).unwrap(), event);
    }

    #[test]
    fn a_cut_row_is_refused() {
        let event = Event { revision: 7, previous: None, current: Some(record(7, b"")) };
        let row = encode(&event);
        for length in 0..row.len() {
            assert_eq!(decode(7, &row[..length]), None, "cut to {length}");
        }
    }
}
