//! Who takes part: identities of processes, names of locks.

use std::fmt;

/// Why a name cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// A name for people with characters that records and annotations do not carry.
    #[error(
        "identity name {0:?} must be 1 to 200 letters, digits, '-', '.' or '_', beginning and ending with a letter or digit"
    )]
    Identity(String),
    /// A lock name that no API server accepts.
    #[error(
        "lock name {0:?} is not a DNS subdomain: use 1 to 253 lower-case letters, digits, '-' or '.', beginning and ending with a letter or digit"
    )]
    Lock(String),
    /// A namespace that no API server accepts.
    #[error(
        "namespace {0:?} is not a DNS label: use 1 to 63 lower-case letters, digits or '-', beginning and ending with a letter or digit"
    )]
    Namespace(String),
}

/// The identity of one process for one lock: `<name>_<instance>`.
///
/// The instance is 16 hexadecimal digits drawn at random when the process starts, so that two processes with
/// the same name (cloned images, host networking) are never taken for one another. Always compared whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity(String);

impl Identity {
    /// Builds an identity from a name for people and this process's random instance.
    ///
    /// # Errors
    /// [`NameError::Identity`] if the name could not stand in a record.
    pub fn new(name: &str, instance: u64) -> Result<Identity, NameError> {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let fits = name.len() <= 200
            && edge(name.chars().next())
            && edge(name.chars().last())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
        if !fits {
            return Err(NameError::Identity(name.to_owned()));
        }
        Ok(Identity(format!("{name}_{instance:016x}")))
    }

    /// The whole identity as it stands in `spec.holderIdentity`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part for people.
    pub fn name(&self) -> &str {
        name_of(&self.0)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part for people of any holder's identity: without `_` and 16 hexadecimal digits, where it ends so.
pub fn name_of(identity: &str) -> &str {
    match identity.rsplit_once('_') {
        Some((name, instance))
            if !name.is_empty()
                && instance.len() == 16
                && instance.bytes().all(|b| b.is_ascii_hexdigit()) =>
        {
            name
        }
        _ => identity,
    }
}

/// The namespace and name of the Lease that is the lock.
///
/// Renaming a lock in an upgrade is a window with two leaders: old and new versions then use two locks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockName {
    namespace: String,
    name: String,
}

impl LockName {
    /// A lock by namespace and name.
    ///
    /// # Errors
    /// [`NameError`] if an API server would refuse one of them.
    pub fn new(namespace: &str, name: &str) -> Result<LockName, NameError> {
        let label = |s: &str, max: usize| {
            let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            !s.is_empty()
                && s.len() <= max
                && edge(s.as_bytes().first())
                && edge(s.as_bytes().last())
                && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if !label(namespace, 63) {
            return Err(NameError::Namespace(namespace.to_owned()));
        }
        if name.len() > 253 || !name.split('.').all(|part| label(part, 253)) {
            return Err(NameError::Lock(name.to_owned()));
        }
        Ok(LockName { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Parses `[NAMESPACE/]NAME`.
    ///
    /// # Errors
    /// As [`LockName::new`].
    pub fn parse(text: &str, default_namespace: &str) -> Result<LockName, NameError> {
        match text.split_once('/') {
            Some((namespace, name)) => LockName::new(namespace, name),
            None => LockName::new(default_namespace, text),
        }
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the Lease.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b08_two_processes_with_one_name_have_two_identities() {
        let a = Identity::new("web", 1).unwrap();
        let b = Identity::new("web", 2).unwrap();
        assert_ne!(a, b);
        assert_eq!(a.name(), b.name());
        assert_eq!(a.as_str(), "web_0000000000000001");
    }

    #[test]
    fn names_that_no_record_can_carry_are_refused() {
        for bad in ["", "a/b", "-a", "a_", "a b", "ä", &"x".repeat(201)] {
            assert!(Identity::new(bad, 0).is_err(), "{bad}");
        }
        for bad in ["", "Abc", "a_b", "a..b", "-a", "a/b/c"] {
            assert!(LockName::parse(bad, "default").is_err(), "{bad}");
        }
        assert!(LockName::parse("x", "Default").is_err());
    }

    #[test]
    fn b10_namespace_and_name_never_run_together() {
        let a = LockName::new("foo", "bar-baz").unwrap();
        let b = LockName::new("foo-bar", "baz").unwrap();
        assert_ne!(a, b);
        assert_ne!(a.to_string(), b.to_string());
        assert_eq!(LockName::parse("a/b", "x").unwrap().to_string(), "a/b");
        assert_eq!(LockName::parse("b", "x").unwrap().to_string(), "x/b");
    }

    #[test]
    fn the_name_of_a_foreign_holder_is_left_whole() {
        assert_eq!(name_of("host_1234"), "host_1234");
        assert_eq!(name_of("a_b_00000000000000ff"), "a_b");
        assert_eq!(name_of("_00000000000000ff"), "_00000000000000ff");
    }
}
