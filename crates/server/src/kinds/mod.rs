//! The kinds of objects that the server knows: for each its names, its fields, its rules and its columns.
//!
//! A kind is data: one file with a [`Kind`] in it, named in [`ALL`]. Reading JSON, discovery and tables follow
//! from it.

mod lease;
mod meta;
mod microtime;
mod names;
mod namespace;
mod object;
mod schema;

pub(crate) use self::lease::LEASE;
pub(crate) use self::meta::{check_create, check_update};
pub(crate) use self::microtime::now_in_seconds;
pub(crate) use self::namespace::{NAMESPACE, initial_namespaces};
pub(crate) use self::object::Object;
pub(crate) use self::schema::{DecodeError, Decoded, Struct, Type};

use serde_json::Value;

use crate::status::{Cause, Subject};
use crate::store::{Key, Scope};

/// One kind in one version.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    /// Whether PUT makes what is not there.
    pub(crate) create_on_update: bool,
    pub(crate) schema: &'static Struct,
    pub(crate) name_rule: fn(&str) -> Option<&'static str>,
    /// The rules for what is not metadata.
    pub(crate) validate: fn(&Object, &mut Vec<Cause>),
    /// Fills in what the server adds to every object.
    pub(crate) complete: fn(&mut Object),
    /// The columns between name and age.
    pub(crate) columns: &'static [Column],
}

/// A column of a table.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// 0 is shown always, others with `-o wide`.
    pub(crate) priority: i32,
    pub(crate) cell: fn(&Object) -> Value,
}

/// All kinds.
pub(crate) static ALL: &[&Kind] = &[&LEASE, &NAMESPACE];

impl Kind {
    /// `coordination.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name of its objects in the store, the same for all versions.
    fn stored_as(&self) -> String {
        if self.group.is_empty() { self.plural.into() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        Key::new(&self.stored_as(), namespace, name)
    }

    pub(crate) fn scope(&self, namespace: Option<&str>) -> Scope {
        match namespace {
            Some(namespace) => Scope::namespace(&self.stored_as(), namespace),
            None => Scope::resource(&self.stored_as()),
        }
    }

    /// The object of an error about a resource.
    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: self.group, kind: self.plural, name }
    }

    /// The object of an error about fields.
    pub(crate) fn subject_of_fields<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: self.group, kind: self.kind, name }
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Reads an object that a client sent.
    ///
    /// # Errors
    /// Its type or a field is not what it has to be.
    pub(crate) fn decode(&self, value: Value) -> Result<Decoded, DecodeError> {
        schema::decode(self, value)
    }
}
