//! Counts which rules break, by kind of scenario: `survey SEEDS [START] [FAULT] [KIND]`.

use std::collections::BTreeMap;

use incumbent_sim::{Kind, Options, Stats, fault_named, run};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, or: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (seeds, start) = (number(1, 1000), number(2, 0));
    let options = Options {
        fault: args.get(3).and_then(|f| fault_named(f)),
        kind: args.get(4).and_then(|k| Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == *k)),
        ..Options::default()
    };
    let mut broken: BTreeMap<(Kind, &str), Vec<u64>> = BTreeMap::new();
    let mut stats = Stats::default();
    for seed in start..start + seeds {
        let outcome = run(seed, &options);
        stats += outcome.stats;
        for v in &outcome.violations {
            broken.entry((outcome.kind, v.rule)).or_default().push(seed);
        }
    }
    for ((kind, rule), seeds) in &broken {
        println!("{kind:?} {rule}: {} of them: {:?}", seeds.len(), &seeds[..seeds.len().min(6)]);
    }
    println!("{stats}");
}
