//! Names of objects and of groups of them.

use std::fmt;
use std::sync::Arc;

/// The name of one object: `resource/namespace/name`, the namespace empty for what has none.
///
/// Keys are ordered as their text is, which is the order of a list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of an object. No part may contain `/`, which valid resource names, namespaces and object
    /// names never do.
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        debug_assert!(![resource, namespace, name].iter().any(|part| part.contains('/')));
        Self(format!("{resource}/{namespace}/{name}").into())
    }

    /// A key that was written down with [`as_str`](Self::as_str); none if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        (text.split('/').count() == 3).then(|| Self(text.into()))
    }

    /// The bound from which the keys of a prefix start; no key of an object.
    pub(super) fn from_prefix(prefix: &str) -> Self {
        Self(prefix.into())
    }

    /// `resource/namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The middle part.
    pub fn namespace(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

/// A group of objects to list or watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One object, whether it exists or not.
    One(Key),
    /// Every object whose key starts with this text.
    Under(Arc<str>),
}

impl Scope {
    /// Every object of a resource, in all namespaces.
    pub fn resource(resource: &str) -> Self {
        Self::Under(format!("{resource}/").into())
    }

    /// Every object of a resource in one namespace.
    pub fn namespace(resource: &str, namespace: &str) -> Self {
        Self::Under(format!("{resource}/{namespace}/").into())
    }

    /// Whether the object belongs to it.
    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Under(prefix) => key.as_str().starts_with(&**prefix),
        }
    }

    /// The text with which every key of it starts.
    pub fn prefix(&self) -> &str {
        match self {
            Self::One(key) => key.as_str(),
            Self::Under(prefix) => prefix,
        }
    }
}
