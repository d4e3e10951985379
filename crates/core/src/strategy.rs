//! Strategies: which candidate is the right leader.

use std::fmt;
use std::str::FromStr;

/// By what a leader is chosen among eligible candidates of equal priority.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Strategy {
    /// Lowest emulation version, then lowest binary version: no component leads with features that another
    /// does not know yet. Upstream's only strategy.
    OldestEmulationVersion,
    /// Highest binary version: few handovers in an upgrade.
    NewestVersion,
    /// Whoever leads, as long as it is eligible.
    KeepIncumbent,
    /// Somebody else's (a qualified name with one `/`): candidates answer its pings, and elect by it nobody.
    ThirdParty(String),
}

/// Why a strategy cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "strategy {0:?} is not known: use OldestEmulationVersion, incumbent.dev/newest-version, incumbent.dev/keep-incumbent, or another party's qualified name such as example.com/mine"
)]
pub struct StrategyError(String);

impl Strategy {
    /// The name as it stands in records.
    pub fn as_str(&self) -> &str {
        match self {
            Strategy::OldestEmulationVersion => "OldestEmulationVersion",
            Strategy::NewestVersion => "incumbent.dev/newest-version",
            Strategy::KeepIncumbent => "incumbent.dev/keep-incumbent",
            Strategy::ThirdParty(name) => name,
        }
    }

    /// Whether this strategy compares versions.
    pub fn compares_versions(&self) -> bool {
        matches!(self, Strategy::OldestEmulationVersion | Strategy::NewestVersion)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Strategy {
    type Err = StrategyError;

    /// Accepts the names of [`Strategy::as_str`]; ours also without their `incumbent.dev/`.
    fn from_str(text: &str) -> Result<Strategy, StrategyError> {
        match text {
            "OldestEmulationVersion" => Ok(Strategy::OldestEmulationVersion),
            "newest-version" | "incumbent.dev/newest-version" => Ok(Strategy::NewestVersion),
            "keep-incumbent" | "incumbent.dev/keep-incumbent" => Ok(Strategy::KeepIncumbent),
            other => {
                let qualified = other.split_once('/').is_some_and(|(domain, name)| {
                    let part = |s: &str| {
                        !s.is_empty()
                            && s.len() <= 253
                            && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
                            && s.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
                            && s.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric())
                    };
                    part(domain) && part(name) && domain != "incumbent.dev"
                });
                if qualified {
                    Ok(Strategy::ThirdParty(other.to_owned()))
                } else {
                    Err(StrategyError(other.to_owned()))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_qualified_or_refused() {
        for name in [
            "OldestEmulationVersion",
            "incumbent.dev/newest-version",
            "incumbent.dev/keep-incumbent",
            "example.com/mine",
        ] {
            assert_eq!(name.parse::<Strategy>().unwrap().as_str(), name);
        }
        assert_eq!("newest-version".parse(), Ok(Strategy::NewestVersion));
        for bad in ["", "oldest", "incumbent.dev/unknown", "a/b/c", "/x", "x/", "a b/c"] {
            assert!(bad.parse::<Strategy>().is_err(), "{bad}");
        }
    }
}
