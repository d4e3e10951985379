//! Whether a command can be found, before anything depends on it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::StartError;

/// What is searched if PATH is not set, as `execvp` does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Finds the file that `command` names, as a shell would: by itself if it holds a slash, else in the folders of
/// PATH. So a command that is not there is told from one that may not be executed, before it is needed. It may
/// still vanish or change until then.
pub fn resolve(command: &OsStr) -> Result<PathBuf, StartError> {
    if command.is_empty() {
        return Err(StartError::NotFound(command.to_owned()));
    }
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return executable(&path).map(|()| path).map_err(|e| StartError::from_io(&command.to_owned(), &e));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    search(command, &path)
}

fn search(command: &OsStr, path: &OsStr) -> Result<PathBuf, StartError> {
    let mut refused = None;
    for folder in std::env::split_paths(path) {
        let candidate = folder.join(command);
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refused = Some(e),
            Err(_) => {}
        }
    }
    let command: OsString = command.to_owned();
    Err(match refused {
        Some(e) => StartError::NotExecutable(command, e),
        None => StartError::NotFound(command),
    })
}

fn executable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        // What exec says of a folder.
        return Err(Errno::ACCESS.into());
    }
    access(path, Access::EXEC_OK)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tells_missing_from_forbidden() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "text").unwrap();
        assert!(matches!(resolve(plain.as_os_str()), Err(StartError::NotExecutable(..))));
        assert!(matches!(resolve(folder.path().as_os_str()), Err(StartError::NotExecutable(..))));
        let missing = folder.path().join("missing");
        assert!(matches!(resolve(missing.as_os_str()), Err(StartError::NotFound(_))));
        assert!(matches!(resolve(OsStr::new("")), Err(StartError::NotFound(_))));
        assert!(resolve(OsStr::new("sh")).is_ok());
        let path = folder.path().as_os_str();
        assert!(matches!(search(OsStr::new("plain"), path), Err(StartError::NotExecutable(..))));
        assert!(matches!(search(OsStr::new("other"), path), Err(StartError::NotFound(_))));
    }
}
