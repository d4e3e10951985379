//! The data directory: one server at a time, private files, written in one step.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::StartError;

/// A data directory that is ours for as long as this lives.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there, and locks it. The lock goes with the process, however that
    /// ends.
    pub(super) fn open(path: &Path) -> Result<Self, StartError> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| StartError::File { what, path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make", path))?;
        let path = path.canonicalize().map_err(failed("find", path))?;
        let lock_path = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(failed("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let pid = lock.read_to_string(&mut pid).ok().and_then(|_| pid.trim().parse().ok());
                return Err(StartError::InUse { path, pid });
            }
            Err(TryLockError::Error(source)) => {
                return Err(StartError::File { what: "lock", path: lock_path, source });
            }
        }
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| write!(lock, "{}", std::process::id()))
            .and_then(|()| lock.flush());
        written.map_err(failed("write", &lock_path))?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The text of a file; none if there is no file.
pub(super) fn read_private(path: &Path) -> Result<Option<String>, StartError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StartError::File { what: "read", path: path.into(), source }),
    }
}

/// Writes a file that only its owner can read. Whoever reads it sees the old text or the new one.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StartError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.tmp", std::process::id()));
    let draft = PathBuf::from(draft);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    // What a crashed process with our id may have left.
    let _ = fs::remove_file(&draft);
    write().map_err(|source| {
        let _ = fs::remove_file(&draft);
        StartError::File { what: "write", path: path.into(), source }
    })
}
