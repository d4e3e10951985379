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

    /// Fails if this directory has served before and its store is gone or empty: a new one would begin with
    /// low revisions, and so with fencing tokens that were given out before.
    pub(super) fn has_kept_its_store(&self) -> Result<(), StartError> {
        let store = self.file("store.redb");
        let served = self.file("kubeconfig").exists();
        let kept = fs::metadata(&store).is_ok_and(|m| m.len() > 0);
        if served && !kept {
            let why = "it is gone or empty, though this folder has served before; restore it, or begin anew in \
                       another folder: revisions, and so fencing tokens, would fall";
            let source = std::io::Error::other(why);
            return Err(StartError::File { what: "use", path: store, source });
        }
        Ok(())
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

/// Writes a file that only its owner can read. Whoever reads it sees the old text or the new one. A link is
/// followed; what is no regular file (a device, a pipe) is left alone.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StartError> {
    let target = match fs::canonicalize(path) {
        Ok(target) if target.is_file() => target,
        Ok(_) => {
            let source = std::io::Error::other("it is there, and it is not a regular file");
            return Err(StartError::File { what: "write", path: path.into(), source });
        }
        Err(_) => path.to_owned(),
    };
    let path = target.as_path();
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
