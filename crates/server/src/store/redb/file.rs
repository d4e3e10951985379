//! The file: its tables, its format version, opening it, and one durable transaction.
//!
//! | table | key | value |
//! |---|---|---|
//! | `history` | revision | what that commit wrote, see [`row`](super::row) |
//! | `meta` | `format`, `revision`, `compacted` | a number |
//!
//! The history is the only copy. It holds every change after `compacted`, and, of each object that lives at
//! `compacted`, the version of that moment: what is needed to know the objects, the changes, and what was
//! there before each of them. When a change is forgotten, the version that it replaced goes from the file.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};

use super::OpenError;
use super::row::{self, Row};
use crate::store::state::State;
use crate::store::{Event, Retention};

const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The format that this release writes. A file of a newer one is refused.
const FORMAT: u64 = 1;

/// redb's cache of pages. Reads come from [`State`], so a small one serves the writer.
const CACHE_BYTES: usize = 16 << 20;

/// An open file.
#[derive(Debug)]
pub(super) struct File(Database);

impl File {
    /// Opens or makes the file, and reads the state from it.
    pub(super) fn open(path: &Path, retention: Retention) -> Result<(Self, State), OpenError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path: path.into() },
            DatabaseError::UpgradeRequired(found) => {
                OpenError::Damaged { path: path.into(), reason: format!("redb file format {found}") }
            }
            other => OpenError::Io { path: path.into(), source: other.into() },
        })?;
        Self::start(database, path, retention)
    }

    /// Reads the state from a database; `path` is for the words of errors.
    pub(super) fn start(
        database: Database,
        path: &Path,
        retention: Retention,
    ) -> Result<(Self, State), OpenError> {
        let file = Self(database);
        let (state, forgotten) = file.load(path, retention)?;
        file.write(&[], &forgotten, &state)
            .map_err(|error| OpenError::Io { path: path.into(), source: error.into() })?;
        Ok((file, state))
    }

    fn load(&self, path: &Path, retention: Retention) -> Result<(State, Vec<Arc<Event>>), OpenError> {
        let io = |error: redb::Error| OpenError::Io { path: path.into(), source: error.into() };
        let damaged = |reason: String| OpenError::Damaged { path: path.into(), reason };
        let read = self.0.begin_read().map_err(|error| io(error.into()))?;
        let meta = match read.open_table(META) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok((State::new(retention, 0), Vec::new())),
            Err(error) => return Err(io(error.into())),
        };
        let number = |name: &str| -> Result<u64, OpenError> {
            let value = meta.get(name).map_err(|error| io(error.into()))?;
            value.map(|guard| guard.value()).ok_or_else(|| damaged(format!("it does not say its {name}")))
        };
        let found = number("format")?;
        if found > FORMAT {
            return Err(OpenError::Newer { path: path.into(), found, known: FORMAT });
        }
        let compacted = number("compacted")?;
        let mut state = State::new(retention, compacted);
        let mut forgotten = Vec::new();
        let history = read.open_table(HISTORY).map_err(|error| io(error.into()))?;
        for entry in history.iter().map_err(|error| io(error.into()))? {
            let (revision, bytes) = entry.map_err(|error| io(error.into()))?;
            let revision = revision.value();
            let unreadable = || damaged(format!("the row of revision {revision} makes no sense"));
            let row = row::decode(revision, bytes.value()).ok_or_else(unreadable)?;
            if revision <= compacted {
                let Row::Written(record) = row else { return Err(unreadable()) };
                state.restore(record);
            } else {
                let previous = state.get(row.key()).cloned();
                let event = row.into_event(revision, previous).ok_or_else(unreadable)?;
                forgotten.extend(state.apply(&Arc::new(event)));
            }
        }
        let newest = number("revision")?;
        if state.revision() != newest {
            return Err(damaged(format!("it ends at revision {}, not at {newest}", state.revision())));
        }
        Ok((state, forgotten))
    }

    /// Writes changes and forgets others, in one transaction that is on disk when this returns.
    ///
    /// `state` is the state before the changes.
    pub(super) fn write(
        &self,
        changes: &[Arc<Event>],
        forgotten: &[Arc<Event>],
        state: &State,
    ) -> Result<(), redb::Error> {
        let transaction = self.0.begin_write()?;
        {
            let mut history = transaction.open_table(HISTORY)?;
            for event in changes {
                history.insert(event.revision, row::encode(event).as_slice())?;
            }
            for event in forgotten {
                if let Some(replaced) = &event.previous {
                    history.remove(replaced.modified)?;
                }
                if event.current.is_none() {
                    history.remove(event.revision)?;
                }
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("revision", changes.last().map_or(state.revision(), |event| event.revision))?;
            meta.insert("compacted", forgotten.last().map_or(state.compacted(), |event| event.revision))?;
        }
        transaction.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_refused_with_both_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let (file, _) = File::open(&path, Retention::default()).unwrap();
        let transaction = file.0.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
        transaction.commit().unwrap();
        drop(file);
        let error = File::open(&path, Retention::default()).unwrap_err();
        assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
        assert!(error.to_string().contains("format 2"), "{error}");
    }

    #[test]
    fn an_open_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let _file = File::open(&path, Retention::default()).unwrap();
        let error = File::open(&path, Retention::default()).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    }

    #[test]
    fn something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        std::fs::write(&path, "a letter to a friend, long enough to look like a header of a file").unwrap();
        assert!(File::open(&path, Retention::default()).is_err());
    }
}
