//! The simulator can see: each rule that is broken on purpose is noticed, and by the invariant it serves.

use incumbent_core::faults::Fault;
use incumbent_sim::{FAULTS, Kind, Options, find};

/// Seeds that may be needed.
const MOST: u64 = 500;

#[track_caller]
fn caught(fault: Fault, kind: Kind, rule: &'static str) {
    let options = Options { fault: Some(fault), kind: Some(kind), only: Some(rule), ..Options::default() };
    let sound = Options { fault: None, ..options };
    let Some(outcome) = find(0, MOST, &options) else {
        panic!("{fault:?} was not noticed as a violation of {rule} in {MOST} seeds");
    };
    println!("{fault:?}: {rule} broken in seed {} of {kind:?}", outcome.seed);
    assert_eq!(outcome.violations[0].rule, rule);
    // It is the fault that was noticed, and not the seed.
    let without = incumbent_sim::run(outcome.seed, &sound);
    assert!(without.violations.is_empty(), "seed {} without the fault: {without}", outcome.seed);
}

macro_rules! caught {
    ($($test:ident: $fault:ident in $kind:ident breaks $rule:literal;)*) => {
        $(
            #[test]
            fn $test() {
                caught(Fault::$fault, Kind::$kind, $rule);
            }
        )*

        #[test]
        fn every_fault_has_a_test() {
            let tested = [$(Fault::$fault),*];
            for fault in FAULTS {
                assert!(tested.contains(&fault), "{fault:?}");
            }
        }
    };
}

caught! {
    a_lead_that_counts_from_the_answer: ValidFromAnswer in Partition breaks "I1";
    a_lead_that_a_no_op_extends: NoOpExtends in Upgrade breaks "§3";
    a_stamp_of_the_bare_wall_clock: BareWallStamp in Clocks breaks "§3";
    a_cancelled_term_that_leads_again: LateAckRevives in Partition breaks "§3";
    a_release_before_the_work_has_ended: ReleaseBeforeWorkEnds in Upgrade breaks "I3";
    a_holder_that_judges_from_memory: JudgeFromMemory in Partition breaks "I1";
    an_update_without_uid: UpdateWithoutUid in Deletion breaks "§5";
    a_free_lock_taken_at_once: FreeAtOnce in Strangers breaks "§6";
    an_appointment_obeyed_at_once: ObeyAtOnce in Coordinator breaks "I1";
    a_vanished_lock_created_at_once: CreateAtOnce in Deletion breaks "I1";
    a_takeover_before_expiry: EarlyTakeover in Partition breaks "I4";
    an_expiry_by_wall_clock: WallClockExpiry in Clocks breaks "I4";
    a_mark_of_an_older_record: OldMarksCount in Strangers breaks "I1";
    a_transfer_of_unknown_outcome_forgotten: ForgetUnknownTransfer in Network breaks "§4";
    a_renewal_after_a_loss: NoHardEnd in Partition breaks "§3";
    a_shorter_duration_believed: ShorterCounts in Strangers breaks "I4";
    a_guard_that_ignores_gaps: GuardIgnoresGaps in Strangers breaks "I1";
    a_write_that_counts_from_its_discovery: UnknownCountsFromRead in Partition breaks "I1";
    a_mark_while_the_guard_runs: MarkDespiteGuard in Strangers breaks "I1";
    a_move_without_damping: NoDamping in Processes breaks "§9";
    a_failed_leader_that_does_not_hold_back: NoBackoff in Processes breaks "§4";
    a_term_that_the_first_failure_ends: FirstFailureEnds in Network breaks "I7";
    an_elector_that_an_error_ends: ErrorEnds in Network breaks "I6";
    a_drain_without_renewals: NoRenewalInDrain in Upgrade breaks "I7";
}
