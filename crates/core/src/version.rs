//! The versions a candidate announces.

use semver::Version;

/// Why versions cannot be announced.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VersionError {
    /// Not strict semantic versioning.
    #[error(
        "{field} {text:?} is not a semantic version: {why}; write it as 1.30.0, without a leading v, with all three numbers"
    )]
    Syntax {
        /// Which version.
        field: &'static str,
        /// What was given.
        text: String,
        /// What the parser said.
        why: String,
    },
    /// The emulation version is newer than the binary.
    #[error(
        "emulation version {emulation} is newer than binary version {binary}: a binary cannot emulate what it does not know"
    )]
    Emulation {
        /// The emulation version.
        emulation: Version,
        /// The binary version.
        binary: Version,
    },
    /// `OldestEmulationVersion` needs versions to compare.
    #[error("strategy {0} compares versions: give the binary version")]
    Missing(String),
}

/// Binary and emulation version, the second never newer than the first. Build metadata does not count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Versions {
    binary: Version,
    emulation: Version,
}

impl Versions {
    /// Parses both; without an emulation version it is the binary's.
    ///
    /// # Errors
    /// [`VersionError`] if one is not strict semver, or the emulation version is newer than the binary's.
    pub fn parse(binary: &str, emulation: Option<&str>) -> Result<Versions, VersionError> {
        let strict = |field, text: &str| {
            Version::parse(text).map_err(|e| VersionError::Syntax {
                field,
                text: text.to_owned(),
                why: e.to_string(),
            })
        };
        let binary = strict("binary version", binary)?;
        let emulation = match emulation {
            Some(text) => strict("emulation version", text)?,
            None => binary.clone(),
        };
        if emulation.cmp_precedence(&binary).is_gt() {
            return Err(VersionError::Emulation { emulation, binary });
        }
        Ok(Versions { binary, emulation })
    }

    /// The version of the running binary.
    pub fn binary(&self) -> &Version {
        &self.binary
    }

    /// The version whose behaviour it shows.
    pub fn emulation(&self) -> &Version {
        &self.emulation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b81_versions_are_strict_and_numeric() {
        for bad in ["v1.30.0", "1.30", "1", "", "01.2.3", "1.2.3 "] {
            assert!(matches!(Versions::parse(bad, None), Err(VersionError::Syntax { .. })), "{bad}");
        }
        let cmp = |a: &str, b: &str| {
            let v = |s| Versions::parse(s, None).unwrap();
            v(a).binary().cmp_precedence(v(b).binary())
        };
        assert!(cmp("1.9.0", "1.10.0").is_lt());
        assert!(cmp("1.30.0-alpha.1", "1.30.0").is_lt());
        assert!(cmp("1.30.0+a", "1.30.0+b").is_eq());
        assert!(matches!(Versions::parse("1.30.0", Some("1.31.0")), Err(VersionError::Emulation { .. })));
        assert!(Versions::parse("1.30.0+a", Some("1.30.0+b")).is_ok());
        assert_eq!(Versions::parse("1.2.3", None).unwrap().emulation().to_string(), "1.2.3");
    }
}
