//! What has to work with real processes on a real server.
//!
//! What is unsafe fails exactly; what is slow fails only beyond what a busy machine explains. Nothing sleeps and
//! hopes: every wait is for a condition, with a limit.

mod ends;
mod mistakes;
mod mixed;
mod people;
mod rights;
mod scheduler;
mod upgrade;

use super::site::Site;

/// One scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Needs a real cluster.
    pub(super) cluster: bool,
    /// Returns what it saw, for people.
    pub(super) run: fn(&Site) -> anyhow::Result<String>,
}

const fn everywhere(name: &'static str, run: fn(&Site) -> anyhow::Result<String>) -> Scenario {
    Scenario { name, cluster: false, run }
}

const fn on_a_cluster(name: &'static str, run: fn(&Site) -> anyhow::Result<String>) -> Scenario {
    Scenario { name, cluster: true, run }
}

/// All of them, those that take long first.
pub(super) const ALL: [Scenario; 17] = [
    on_a_cluster("kube-scheduler", scheduler::run),
    everywhere("client-go", mixed::run),
    everywhere("demo", upgrade::demo),
    on_a_cluster("least-rights", rights::run),
    everywhere("killed", ends::killed),
    everywhere("paused", ends::paused),
    everywhere("slow-drain", ends::slow_drain),
    everywhere("wiped", people::wiped),
    everywhere("deleted", people::deleted),
    everywhere("upgrade", upgrade::coordinated),
    everywhere("rollback", upgrade::rollback),
    everywhere("witness", ends::witness),
    everywhere("told-to-stop", ends::told_to_stop),
    everywhere("exit-codes", ends::exit_codes),
    everywhere("own-end", ends::own_end),
    everywhere("kubectl", people::kubectl),
    everywhere("wrong-input", mistakes::run),
];
