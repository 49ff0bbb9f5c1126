//! One node and two, on a table that answers: joining, leaving, fences, ids in use, wiped tables.

use super::*;
use crate::{
    FileCoordinator, ModelCoordinator,
    membership::{ClusterEventKind, NodeAddresses, NodeRole, draw_incarnation},
    model::Model,
};
use std::path::Path;
use tidemill_env::{SimWorld, Simulation};
use tidemill_types::ClusterId;

pub(in crate::membership) fn profile(node: i32) -> NodeProfile {
    NodeProfile {
        node: NodeId(node),
        addresses: NodeAddresses {
            kafka: Some(format!("10.0.0.{node}:9092")),
            http: None,
            cluster: Some(format!("10.0.0.{node}:7088")),
        },
        roles: [NodeRole::Broker].into(),
        rack: None,
        build: "test".into(),
        cluster: None,
        last_incarnation: Incarnation(0),
        can_create: true,
    }
}

/// Runs a scenario in a simulation of one seed.
fn simulate(seed: u64, body: impl FnOnce(&SimWorld) + Send + 'static) {
    let ran = Simulation::new(seed).run(move |sim| body(sim));
    let (done, report) = ran.unwrap_or_else(|failure| panic!("{}", failure.message));
    assert!(done.is_some(), "{:?}", report.panicked);
}

fn start(sim: &SimWorld, coordinator: &ModelCoordinator, profile: NodeProfile) -> ClusterMember {
    let coordinator = Arc::new(coordinator.clone());
    ClusterMember::start(&sim.world, coordinator, MemberOptions::new(profile)).expect("joins")
}

fn joined(member: &ClusterMember) -> Registered {
    member.wait_joined(Duration::from_secs(60)).expect("may join").expect("has joined")
}

/// Waits in simulated time until a condition holds.
fn eventually(sim: &SimWorld, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        sim.world.clock.sleep_micros(100_000);
    }
    panic!("never: {what}");
}

#[test]
fn a_node_joins_is_seen_and_leaves_at_once() {
    simulate(1, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let one = start(sim, &model.handle(), profile(1));
        let two = start(sim, &model.handle(), profile(2));
        let (first, second) = (joined(&one), joined(&two));
        assert_eq!(first.cluster, second.cluster);
        assert!(first.incarnation < second.incarnation);
        eventually(sim, "both see both, and a controller", || {
            [&one, &two].iter().all(|it| {
                let view = it.view().expect("has joined");
                view.live().count() == 2 && view.controller.is_some()
            })
        });
        assert_eq!(two.check(NodeId(1), first.incarnation), Ok(()));
        one.leave();
        assert_eq!(one.status(), MemberStatus::Left);
        eventually(sim, "the other sees it go, and leads", || {
            let view = two.view().expect("has joined");
            view.live().count() == 1 && view.is_controller(NodeId(2), second.incarnation)
        });
        assert!(matches!(
            two.check(NodeId(1), first.incarnation),
            Err(FenceError::LeaseEnded { .. })
        ));
        let left = ClusterEventKind::NodeLeft { node: NodeId(1), incarnation: first.incarnation };
        assert!(two.events(0).iter().any(|it| it.kind == left), "{:?}", two.events(0));
        two.leave();
    });
}

#[test]
fn a_node_whose_lease_ended_is_fenced_and_registers_anew() {
    simulate(2, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let handle = model.handle();
        let one = start(sim, &handle, profile(1));
        let two = start(sim, &model.handle(), profile(2));
        let before = joined(&one);
        handle.set_cut(true);
        eventually(sim, "the lease ends on both sides", || {
            two.check(NodeId(1), before.incarnation).is_err()
        });
        let status = one.status();
        assert!(matches!(status, MemberStatus::Waiting { .. }), "{status:?}");
        handle.set_cut(false);
        eventually(sim, "it is joined again", || {
            joined(&one).incarnation > before.incarnation
                && two.check(NodeId(1), joined(&one).incarnation).is_ok()
        });
        let refused = two.check(NodeId(1), before.incarnation);
        assert!(matches!(refused, Err(FenceError::Superseded { .. })), "{refused:?}");
        let kinds: Vec<_> = one.events(0).into_iter().map(|it| it.kind).collect();
        assert!(kinds.contains(&ClusterEventKind::Fenced(before.incarnation)), "{kinds:?}");
        assert!(kinds.contains(&ClusterEventKind::CoordinatorFound), "{kinds:?}");
        one.leave();
        two.leave();
    });
}

#[test]
fn a_fenced_node_that_may_not_rejoin_waits_to_be_told() {
    simulate(3, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let handle = model.handle();
        let options = MemberOptions { rejoins: false, ..MemberOptions::new(profile(1)) };
        let one = ClusterMember::start(&sim.world, Arc::new(handle.clone()), options);
        let one = one.expect("joins");
        let before = joined(&one).incarnation;
        handle.set_cut(true);
        sim.world.clock.sleep_micros(20_000_000);
        handle.set_cut(false);
        eventually(
            sim,
            "it is fenced",
            || matches!(one.status(), MemberStatus::Fenced { incarnation, .. } if incarnation == before),
        );
        sim.world.clock.sleep_micros(20_000_000);
        assert!(matches!(one.status(), MemberStatus::Fenced { .. }));
        handle.set_cut(true);
        one.rejoin();
        eventually(
            sim,
            "it says what it waits for",
            || matches!(one.status(), MemberStatus::Fenced { why, .. } if why.contains("waits for the coordinator")),
        );
        handle.set_cut(false);
        assert!(joined(&one).incarnation > before);
        one.leave();
    });
}

#[test]
fn row_28_an_id_in_use_is_refused_and_the_first_is_unhurt() {
    simulate(4, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let one = start(sim, &model.handle(), profile(1));
        let before = joined(&one);
        let mut double = profile(1);
        double.addresses.cluster = Some("10.0.0.9:7088".into());
        let began_us = sim.world.clock.monotonic_micros();
        let refused =
            ClusterMember::start(&sim.world, Arc::new(model.handle()), MemberOptions::new(double));
        let error = refused.err().expect("the id is in use");
        assert!(
            matches!(&error, JoinError::IdInUse { address: Some(it), incarnation, .. }
                if it == "10.0.0.1:7088" && *incarnation == before.incarnation),
            "{error}"
        );
        assert!(sim.world.clock.monotonic_micros() - began_us < 1_000_000, "at once");
        sim.world.clock.sleep_micros(20_000_000);
        assert_eq!(one.status(), MemberStatus::Joined { incarnation: before.incarnation });
        one.leave();
    });
}

#[test]
fn a_killed_node_that_comes_back_takes_its_id_at_once() {
    simulate(5, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let handle = model.handle();
        let one = start(sim, &handle, profile(1));
        let before = joined(&one);
        drop(one);
        handle.set_cut(true);
        let mut again = profile(1);
        (again.cluster, again.last_incarnation) =
            (Some(before.cluster.clone()), before.incarnation);
        let began_us = sim.world.clock.monotonic_micros();
        let two = start(sim, &model.handle(), again.clone());
        assert!(sim.world.clock.monotonic_micros() - began_us < 2_000_000, "no lease is awaited");
        let incarnation = joined(&two).incarnation;
        assert!(incarnation > before.incarnation);
        // A copy of the folder on another machine waits for the lease, in vain.
        again.last_incarnation = incarnation;
        again.addresses.cluster = Some("10.0.0.9:7088".into());
        let refused =
            ClusterMember::start(&sim.world, Arc::new(model.handle()), MemberOptions::new(again));
        assert!(matches!(refused.err(), Some(JoinError::IdInUse { .. })));
        assert_eq!(two.status(), MemberStatus::Joined { incarnation });
        two.leave();
    });
}

#[test]
fn row_29_a_wiped_table_stops_changes_and_is_told_of() {
    simulate(6, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let one = start(sim, &model.handle(), profile(1));
        let before = joined(&one);
        eventually(sim, "it is the controller", || {
            one.view().expect("has joined").controller.is_some()
        });
        model.wipe();
        eventually(sim, "it says so", || matches!(one.status(), MemberStatus::Replaced { .. }));
        assert_eq!(one.check(NodeId(1), before.incarnation), Ok(()), "the last view stands");
        sim.world.clock.sleep_micros(60_000_000);
        assert_eq!(model.handle().list("").expect("answers").entries, []);
        one.leave();
        // A restart does not begin a new cluster in the empty table either.
        let mut again = profile(1);
        again.cluster = Some(before.cluster);
        let refused =
            ClusterMember::start(&sim.world, Arc::new(model.handle()), MemberOptions::new(again));
        assert!(matches!(refused.err(), Some(JoinError::Replaced(_))));
        assert_eq!(model.handle().list("").expect("answers").entries, []);
    });
}

#[test]
fn e4_row_30_a_watch_that_missed_changes_lists_the_table_anew() {
    simulate(10, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let handle = model.handle();
        let one = start(sim, &handle, profile(1));
        let before = joined(&one);
        eventually(sim, "it is the controller", || {
            one.view().expect("has joined").controller.is_some()
        });
        handle.set_cut(true);
        sim.world.clock.sleep_micros(1_000_000);
        let two = start(sim, &model.handle(), profile(2));
        let second = joined(&two);
        model.compact(model.handle().list("").expect("answers").revision);
        handle.set_cut(false);
        let healed_us = sim.world.clock.monotonic_micros();
        eventually(sim, "it sees the other", || one.check(NodeId(2), second.incarnation).is_ok());
        assert!(sim.world.clock.monotonic_micros() - healed_us < 5_000_000);
        assert!(one.events(0).iter().any(|it| it.kind == ClusterEventKind::Resynced));
        assert_eq!(one.status(), MemberStatus::Joined { incarnation: before.incarnation });
        one.leave();
        two.leave();
    });
}

#[test]
fn a_node_that_may_not_begin_a_cluster_waits_for_one() {
    simulate(7, |sim| {
        let model = Model::new(Arc::clone(&sim.world.clock));
        let waits = NodeProfile { can_create: false, ..profile(2) };
        let two =
            ClusterMember::launch(&sim.world, Arc::new(model.handle()), MemberOptions::new(waits));
        let two = two.expect("the lease is long enough");
        sim.world.clock.sleep_micros(5_000_000);
        assert!(
            matches!(two.status(), MemberStatus::Waiting { incarnation: None, why } if why.contains("begins")),
        );
        let one = start(sim, &model.handle(), profile(1));
        assert_eq!(joined(&two).cluster, joined(&one).cluster);
        two.leave();
        one.leave();
    });
}

#[test]
fn a_member_runs_on_the_file_of_one_node() {
    simulate(8, |sim| {
        let folder = Path::new("/coordinator");
        let open = || FileCoordinator::open(&sim.world, folder).expect("opens");
        let coordinator = Arc::new(open());
        let one = ClusterMember::start(&sim.world, coordinator, MemberOptions::new(profile(1)));
        let one = one.expect("joins");
        let first = joined(&one);
        one.leave();
        drop(one);
        let mut again = profile(1);
        (again.cluster, again.last_incarnation) = (Some(first.cluster.clone()), first.incarnation);
        let alone = draw_incarnation(&sim.world, &open(), &again).expect("draws");
        assert_eq!(alone.cluster, first.cluster);
        assert!(alone.incarnation > first.incarnation);
    });
}

#[test]
fn a_node_alone_draws_above_its_folder_by_one_synced_append() {
    let sim = World::simulated(9);
    let coordinator = FileCoordinator::open(&sim.world, Path::new("/coordinator")).expect("opens");
    let cluster: ClusterId = "orders".parse().expect("an id");
    let known = NodeProfile {
        cluster: Some(cluster.clone()),
        last_incarnation: Incarnation(57),
        can_create: false,
        ..profile(1)
    };
    let operations = sim.disk.operations();
    let drawn = draw_incarnation(&sim.world, &coordinator, &known).expect("draws");
    assert_eq!((drawn.cluster, drawn.incarnation), (cluster, Incarnation(58)));
    assert_eq!(sim.disk.operations() - operations, 2, "an append and its sync");
    let new = NodeProfile { cluster: None, ..known };
    let again = draw_incarnation(&sim.world, &coordinator, &new).expect("draws");
    assert_eq!(again.incarnation, Incarnation(59));
}
