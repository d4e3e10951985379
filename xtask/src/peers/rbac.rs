//! The users of a cluster and what they may do.

use serde_json::{Value, json};

use super::LockName;

/// Somebody who has a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// May do everything.
    Admin,
    /// May do what it was granted, and nothing from the start.
    Elector(Rights),
}

/// What an elector may do with one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// get and update that Lease, and create: what client-go needs.
    Named,
    /// watch, list and patch that Lease, too.
    Watchful,
}

impl Rights {
    /// The name of the user that has these rights.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Watchful => "watchful",
        }
    }

    fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Named => &["get", "update"],
            Self::Watchful => &["get", "update", "watch", "list", "patch"],
        }
    }
}

impl User {
    /// Every user of a cluster.
    pub(crate) const ALL: [Self; 3] =
        [Self::Admin, Self::Elector(Rights::Named), Self::Elector(Rights::Watchful)];

    /// The name that the server knows it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Elector(rights) => rights.name(),
        }
    }

    /// The bearer token. It opens a server on the loopback address that lives as long as a test.
    pub(crate) fn token(self) -> String {
        format!("{}-token", self.name())
    }

    /// The server's file of tokens.
    pub(crate) fn tokens() -> String {
        let line = |user: Self| {
            let groups = if user == Self::Admin { ",\"system:masters\"" } else { "" };
            format!("{},{name},{name}{groups}\n", user.token(), name = user.name())
        };
        Self::ALL.into_iter().map(line).collect()
    }
}

/// The Role and RoleBinding that give the user of `rights` its rights on `lock`.
///
/// A request to create an object has no name that a role could be held against, so `create` stands in a rule of its
/// own, without one.
pub(crate) fn grant(rights: Rights, lock: &LockName) -> Value {
    let name = format!("{}-{}", rights.name(), lock.name);
    let metadata = json!({ "name": name, "namespace": lock.namespace });
    let rule = |verbs: &[&str], names: Option<&str>| {
        json!({
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": names.into_iter().collect::<Vec<_>>(),
            "verbs": verbs,
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": metadata,
                "rules": [rule(&["create"], None), rule(rights.verbs(), Some(&lock.name))],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": rights.name() }],
            },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::{Rights, User, grant};

    #[test]
    fn only_the_administrator_is_in_a_group() {
        let tokens = User::tokens();
        assert_eq!(
            tokens,
            "admin-token,admin,admin,\"system:masters\"\nnamed-token,named,named\nwatchful-token,watchful,watchful\n"
        );
    }

    #[test]
    fn every_verb_but_create_is_bound_to_the_lock() {
        let lock = "team/leader".parse().expect("lock");
        for rights in [Rights::Named, Rights::Watchful] {
            let granted = grant(rights, &lock);
            let rules = granted["items"][0]["rules"].as_array().expect("rules");
            for rule in rules {
                let only_create = rule["verbs"] == serde_json::json!(["create"]);
                let names = rule["resourceNames"].as_array().expect("names");
                assert_eq!(names.is_empty(), only_create, "{rule}");
            }
            assert_eq!(granted["items"][1]["subjects"][0]["name"], rights.name());
            assert_eq!(granted["items"][1]["roleRef"]["name"], granted["items"][0]["metadata"]["name"]);
        }
    }
}
