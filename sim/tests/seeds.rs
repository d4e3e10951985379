//! The invariants hold: 3,000 seeds of five simulated minutes, in parts so that all cores are used.

use incumbent_sim::{Options, simulate};

fn hold(start: u64) {
    let summary = simulate(start..start + 750, &Options::default(), 1);
    assert!(summary.broken.is_empty(), "{summary}");
    assert_eq!(summary.seeds, 750);
    // A run in which nobody leads, or nothing happens, proves nothing.
    assert!(summary.stats.terms > 3_000 && summary.stats.hard_ends > 500, "{summary}");
    assert!(summary.stats.leaderless < summary.stats.simulated / 4, "{summary}");
}

#[test]
fn seeds_0_to_749() {
    hold(0);
}

#[test]
fn seeds_750_to_1499() {
    hold(750);
}

#[test]
fn seeds_1500_to_2249() {
    hold(1500);
}

#[test]
fn seeds_2250_to_2999() {
    hold(2250);
}
