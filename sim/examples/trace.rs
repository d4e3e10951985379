//! Prints what happens in one seed: `trace SEED [FAULT] [KIND]`.

use incumbent_sim::{Kind, Options, fault_named, run};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seed = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(0);
    let options = Options {
        fault: args.get(2).and_then(|f| fault_named(f)),
        kind: args.get(3).and_then(|k| Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == *k)),
        trace: true,
        ..Options::default()
    };
    let outcome = run(seed, &options);
    print!("{}", outcome.trace);
    println!("{:?} hash {:x} {}", outcome.violations, outcome.trace_hash, outcome.stats);
}
