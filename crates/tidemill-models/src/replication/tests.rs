//! Each model within small bounds, and each planted flaw with the property that finds it.

use super::properties::{AGREED, FULL, KEPT, RECOVERS, SINGLE, STABLE};
use super::{Flaw, ReplicationModel, SyncMode};
use stateright::{Checker, HasDiscoveries, Model};

/// Three nodes, one virtual log on all of them, no faults but delays and elections.
fn small(durability: SyncMode) -> ReplicationModel {
    ReplicationModel {
        durability,
        flaw: None,
        nodes: 3,
        first_set: 0b111,
        sets: vec![0b011, 0b101, 0b110],
        candidates: 0b111,
        records: 2,
        epochs: 2,
        changes: 0,
        crashes: 0,
        losses: 0,
        duplicates: 0,
        in_flight: 2,
        copy_reads: false,
        check_recovery: false,
    }
}

/// Walks all states and expects every property to hold.
fn holds(name: &str, model: ReplicationModel) {
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{name}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Expects a counterexample to a property.
fn finds(model: ReplicationModel, flaw: Flaw, property: &'static str) {
    let model = ReplicationModel { flaw: Some(flaw), ..model };
    let sought = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(sought).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(property);
    assert!(path.is_some(), "{flaw:?} is not found in {states} states");
    println!("{flaw:?}: {} steps, {states} states", path.expect("is some").into_actions().len());
}

/// Two copies and a node beside them that may be elected.
fn with_outsider(durability: SyncMode) -> ReplicationModel {
    ReplicationModel { first_set: 0b011, candidates: 0b110, ..small(durability) }
}

/// Four nodes, of which the first three are the first set and one is spare.
fn with_spare(durability: SyncMode) -> ReplicationModel {
    ReplicationModel {
        nodes: 4,
        sets: vec![0b0011, 0b1011, 0b1001, 0b0110],
        changes: 1,
        ..small(durability)
    }
}

/// True for the larger bounds of `make models`.
fn is_large() -> bool {
    std::env::var_os("TIDEMILL_MODELS").is_some_and(|bounds| bounds == "large")
}

/// The bound of `make test`, or the larger one.
fn bound<T>(small: T, large: T) -> T {
    if is_large() { large } else { small }
}

#[test]
fn keeps_what_it_acknowledged_through_promotions() {
    let model = ReplicationModel {
        epochs: 3,
        records: bound(2, 3),
        crashes: 1,
        duplicates: bound(0, 1),
        ..small(SyncMode::Always)
    };
    holds("promotions", model);
}

#[test]
fn keeps_what_it_acknowledged_while_messages_come_twice_and_late() {
    let model = ReplicationModel {
        duplicates: bound(1, 2),
        in_flight: bound(3, 4),
        records: bound(2, 3),
        ..small(SyncMode::Always)
    };
    holds("messages", model);
}

#[test]
fn keeps_what_it_acknowledged_when_an_outsider_is_elected() {
    let model =
        ReplicationModel { epochs: bound(3, 4), crashes: 1, ..with_outsider(SyncMode::Always) };
    holds("outsider", model);
}

#[test]
fn keeps_what_it_acknowledged_when_sets_change() {
    let model = ReplicationModel {
        changes: bound(1, 2),
        records: bound(2, 3),
        ..with_spare(SyncMode::Always)
    };
    holds("changes", model);
}

#[test]
fn keeps_synced_records_through_power_cuts_and_rot() {
    let model =
        ReplicationModel { losses: bound(1, 2), epochs: bound(2, 3), ..small(SyncMode::Always) };
    holds("losses, always", model);
}

#[test]
fn keeps_records_while_one_copy_has_power() {
    let model =
        ReplicationModel { losses: bound(2, 3), epochs: bound(2, 3), ..small(SyncMode::Later) };
    holds("losses, later", model);
}

#[test]
fn takes_back_a_copy_that_forgot_by_a_change_of_set() {
    let model = ReplicationModel {
        first_set: 0b011,
        losses: bound(1, 2),
        changes: bound(1, 2),
        ..small(SyncMode::Later)
    };
    holds("changes after losses", model);
}

#[test]
fn copies_serve_only_what_stays() {
    let model =
        ReplicationModel { copy_reads: true, epochs: bound(2, 3), ..small(SyncMode::Always) };
    holds("reads of copies", model);
}

#[test]
fn serves_again_once_faults_end() {
    let model = ReplicationModel {
        check_recovery: true,
        crashes: 1,
        losses: bound(1, 2),
        records: bound(1, 2),
        ..small(SyncMode::Later)
    };
    holds("recovery from losses", model);
}

#[test]
fn serves_again_in_the_middle_of_a_change_of_set() {
    let model = ReplicationModel {
        check_recovery: true,
        first_set: 0b011,
        changes: bound(1, 2),
        ..small(SyncMode::Always)
    };
    holds("recovery from changes", model);
}

#[test]
fn finds_an_acknowledgement_after_one_of_two_backups() {
    finds(small(SyncMode::Always), Flaw::AckAfterOneBackup, KEPT);
}

#[test]
fn finds_an_acknowledgement_before_the_sync() {
    let model = ReplicationModel { losses: 1, ..small(SyncMode::Always) };
    finds(model, Flaw::AckBeforeSync, KEPT);
}

#[test]
fn finds_a_promotion_without_sealing() {
    finds(with_outsider(SyncMode::Always), Flaw::PromoteWithoutSealing, KEPT);
}

#[test]
fn finds_a_high_watermark_at_the_end_of_the_prefix() {
    let model = ReplicationModel { epochs: 3, ..small(SyncMode::Always) };
    finds(model, Flaw::HighWatermarkAtEnd, STABLE);
}

#[test]
fn finds_truncation_by_high_watermark() {
    let model = ReplicationModel { crashes: 1, ..small(SyncMode::Always) };
    finds(model, Flaw::TruncateByHighWatermark, KEPT);
}

#[test]
fn finds_truncation_by_length() {
    let model = ReplicationModel {
        first_set: 0b011,
        sets: vec![0b011, 0b110],
        changes: 1,
        ..small(SyncMode::Always)
    };
    finds(model, Flaw::TruncateByLength, AGREED);
}

#[test]
fn finds_fewer_copies_during_a_change_of_set() {
    finds(with_spare(SyncMode::Always), Flaw::AckFewerDuringChange, KEPT);
}

#[test]
fn finds_the_old_set_alone_during_a_change_of_set() {
    finds(with_spare(SyncMode::Always), Flaw::AckOldSetDuringChange, KEPT);
}

#[test]
fn finds_a_sick_copy_that_is_the_source() {
    let model = ReplicationModel { losses: 1, ..small(SyncMode::Always) };
    finds(model, Flaw::SickCopyAsSource, KEPT);
}

#[test]
fn finds_a_forgetful_copy_that_is_the_source() {
    let model = ReplicationModel { losses: 1, ..small(SyncMode::Later) };
    finds(model, Flaw::ForgetfulCopyCounts, KEPT);
}

#[test]
fn finds_a_promise_that_a_crash_undoes() {
    let model = ReplicationModel { crashes: 1, ..with_outsider(SyncMode::Always) };
    finds(model, Flaw::PromiseInMemory, KEPT);
}

#[test]
fn finds_a_write_to_the_coordinator_without_comparison() {
    let model = ReplicationModel {
        first_set: 0b001,
        sets: vec![0b001, 0b010, 0b011, 0b100],
        candidates: 0b110,
        changes: 1,
        ..small(SyncMode::Always)
    };
    finds(model, Flaw::PutWithoutCompare, SINGLE);
}

#[test]
fn finds_a_wait_for_a_copy_that_is_gone() {
    let model = ReplicationModel {
        first_set: 0b011,
        losses: 2,
        records: 1,
        check_recovery: true,
        ..small(SyncMode::Later)
    };
    finds(model, Flaw::WaitForFullCopy, RECOVERS);
}

#[test]
fn finds_an_opening_message_that_cuts_twice() {
    let model = ReplicationModel { duplicates: 1, ..small(SyncMode::Always) };
    finds(model, Flaw::OpeningCutsAgain, FULL);
}

#[test]
fn finds_an_acknowledgement_of_another_generation() {
    let model = ReplicationModel {
        nodes: 3,
        sets: vec![0b011, 0b101, 0b111],
        losses: 1,
        changes: 1,
        ..small(SyncMode::Later)
    };
    finds(model, Flaw::AckOfOtherGeneration, FULL);
}
