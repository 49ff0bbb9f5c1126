//! The model keeps the contract, and its anomalies are those that it says.

use super::*;
use crate::contract::{Harness, contract};
use crate::key::Key;
use tidemill_env::World;

fn harness(_name: &str) -> Harness {
    let world = World::simulated(1);
    let model = Model::new(Arc::clone(&world.world.clock));
    let compacting = model.clone();
    let clock = Arc::clone(&world.clock);
    Harness {
        coordinator: Box::new(model.handle()),
        other: Box::new(model.handle()),
        pass: Box::new(move |span| clock.advance(span.as_micros() as u64)),
        compact: Box::new(move |revision| compacting.compact(revision)),
        prefix: String::new(),
    }
}

contract!(harness);

#[test]
fn a_lost_answer_leaves_the_commit_applied() {
    let world = World::simulated(1);
    let model = Model::new(Arc::clone(&world.world.clock));
    let anomalies = Anomalies { lost_answers: 1_000, ..Anomalies::default() };
    let deaf = model.handle_with(anomalies, Random::new(7));
    let key = Key::new("a").expect("a short name");
    let told = deaf.commit(&Transaction::new().put(&key, "1"));
    assert!(matches!(told, Err(CoordinatorError::Unavailable(_))));
    assert!(model.handle().get(&key).expect("answers").is_some());
}

#[test]
fn a_handle_that_is_cut_off_changes_nothing_and_comes_back() {
    let world = World::simulated(1);
    let model = Model::new(Arc::clone(&world.world.clock));
    let node = model.handle();
    let key = Key::new("a").expect("a short name");
    node.set_cut(true);
    assert!(node.commit(&Transaction::new().put(&key, "1")).is_err());
    assert_eq!(model.handle().get(&key), Ok(None));
    node.set_cut(false);
    assert!(node.commit(&Transaction::new().put(&key, "1")).expect("answers").is_applied());
}

#[test]
fn a_wiped_table_is_no_empty_one_to_a_watcher() {
    let world = World::simulated(1);
    let model = Model::new(Arc::clone(&world.world.clock));
    let node = model.handle();
    let key = Key::new("a").expect("a short name");
    for value in ["1", "2"] {
        node.commit(&Transaction::new().put(&key, value)).expect("answers");
    }
    let mut watch = node.watch("", Revision(2)).expect("answers");
    model.wipe();
    let told = watch.changes(Duration::ZERO);
    let expected = CoordinatorError::Replaced { known: Revision(2), found: Revision::NONE };
    assert_eq!(told, Err(expected));
}
