//! One seed, one run: to the byte.

use incumbent_sim::{Kind, Options, run};

#[test]
fn one_seed_twice_gives_identical_bytes() {
    let options = Options { trace: true, ..Options::default() };
    // Every kind of scenario is among them.
    for seed in 0..2 * Kind::ALL.len() as u64 {
        let (a, b) = (run(seed, &options), run(seed, &options));
        assert!(a.trace.len() > 10_000, "seed {seed} has a trace");
        assert!(a == b, "seed {seed} ran twice and differed");
    }
}

#[test]
fn a_run_does_not_depend_on_being_watched() {
    for seed in 100..100 + Kind::ALL.len() as u64 {
        let silent = run(seed, &Options::default());
        let told = run(seed, &Options { trace: true, ..Options::default() });
        assert_eq!((silent.trace_hash, silent.stats), (told.trace_hash, told.stats), "seed {seed}");
    }
}

#[test]
fn two_seeds_differ() {
    let hashes: std::collections::BTreeSet<u64> =
        (0..50).map(|seed| run(seed, &Options::default()).trace_hash).collect();
    assert_eq!(hashes.len(), 50);
}
