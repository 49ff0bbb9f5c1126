//! The node dies in the middle of a transaction, at every step and at any write: what was said to
//! be committed is there, all of it; what was not is not, and holds nobody back.

use super::{
    client::*,
    node::Node,
    producer::{Producer, committed},
};
use tidemill_env::{SimWorld, World};
use tidemill_wire::kafka::{ErrorCode, message::*};

async fn node(sim: &SimWorld) -> Node {
    Node::start_with(|how| how.world = Some(sim.process())).await
}

/// A node, a client of it, and a topic.
async fn begun(sim: &SimWorld) -> (Node, Client) {
    let node = node(sim).await;
    let mut client = node.client().await;
    client.create("t", 3).await;
    (node, client)
}

/// How a node dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Kill,
    PowerCut,
    Stop,
}

const DEATHS: [Death; 3] = [Death::Kill, Death::PowerCut, Death::Stop];

async fn die(sim: &SimWorld, node: Node, death: Death) {
    match death {
        Death::Kill => sim.disk.kill(),
        Death::PowerCut => sim.disk.power_cut(),
        Death::Stop => node.stop().await,
    }
}

/// The offset after the last record or marker that a reader may see of a partition.
async fn watermark(client: &mut Client, partition: i32) -> i64 {
    client.fetch("t", partition, 0, 0).await.high_watermark
}

/// Nothing is open: committed readers get to the end.
async fn is_settled(client: &mut Client) {
    for partition in 0..2 {
        for attempt in 0.. {
            let (_, stable) = committed(client, partition).await;
            if stable == watermark(client, partition).await {
                break;
            }
            assert!(attempt < 400, "R10: partition {partition} is stuck at {stable}");
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        }
    }
}

#[tokio::test]
async fn r7_r4_a_transaction_lives_through_a_restart_at_every_step() {
    for protocol in [1, 2] {
        for death in DEATHS {
            // Dies before this step; 6: after all of them.
            for dies in 0..7 {
                let sim = World::simulated(dies);
                let (mut node, mut client) = begun(&sim).await;
                let mut producer = Producer::transactional(&mut client, "x", protocol).await;
                for step in 0..7 {
                    if step == dies {
                        die(&sim, node, death).await;
                        node = self::node(&sim).await;
                        client = node.client().await;
                    }
                    let what = format!("protocol {protocol}, {death:?} before {dies}, step {step}");
                    match step {
                        0 => producer.begin(&mut client, &[(0, "a")]).await,
                        1 => producer.begin(&mut client, &[(1, "b")]).await,
                        2 => assert_eq!(producer.send(&mut client, 0, &["c"]).await.0, 0, "{what}"),
                        3 => assert_eq!(producer.end(&mut client, true).await, 0, "{what}"),
                        4 => producer.begin(&mut client, &[(0, "d"), (1, "d")]).await,
                        5 => assert_eq!(producer.end(&mut client, false).await, 0, "{what}"),
                        _ => {}
                    }
                    let seen =
                        [committed(&mut client, 0).await.0, committed(&mut client, 1).await.0];
                    if step < 3 {
                        assert!(seen.iter().all(Vec::is_empty), "{what}: {seen:?}");
                    } else {
                        assert_eq!(seen[0], ["a", "c"], "{what}");
                        assert_eq!(seen[1], ["b"], "{what}");
                    }
                }
                is_settled(&mut client).await;
                node.stop().await;
            }
        }
    }
}

#[tokio::test]
async fn r7_r10_a_node_that_dies_anywhere_in_an_end_leaves_it_done_or_undone() {
    let (mut done, mut undone, mut lost) = (0, 0, 0);
    for round in 0..120u64 {
        let death = DEATHS[(round % 2) as usize];
        let commit = round % 3 != 0;
        let sim = World::simulated(round);
        let (node, mut client) = begun(&sim).await;
        let mut producer = Producer::transactional(&mut client, "x", 2).await;
        producer.begin(&mut client, &[(0, "a"), (1, "b")]).await;
        let (request, version) = producer.end_request(commit);
        let id = client.send(&request, version).await;
        // Some writes of the end get through.
        let until = sim.disk.operations() + round / 2 % 24;
        let mut spins = 0;
        while sim.disk.operations() < until && spins < 200_000 {
            spins += 1;
            if spins % 100 == 0 {
                tokio::time::sleep(std::time::Duration::from_micros(20)).await;
            }
            std::hint::spin_loop();
        }
        die(&sim, node, death).await;
        let answered = answer(&mut client, id, version).await;
        let node = self::node(&sim).await;
        let mut client = node.client().await;
        let what = format!("round {round}, {death:?}, commit {commit}, answered {answered:?}");
        // The client tries until it knows.
        let again = client.ask(&request, version).await;
        assert_eq!(again.error_code, 0, "{what}");
        if let Some(producer) = answered {
            done += 1;
            assert_eq!((again.producer_id, again.producer_epoch), producer, "{what}");
        } else {
            lost += 1;
        }
        let expected: &[&str] = if commit { &["a", "b"] } else { &[] };
        is_settled(&mut client).await;
        let mut seen = committed(&mut client, 0).await.0;
        seen.extend(committed(&mut client, 1).await.0);
        assert_eq!(seen, expected, "{what}");
        for partition in 0..2 {
            let end = watermark(&mut client, partition).await;
            assert_eq!(end, 2, "{what}: one record and one marker");
        }
        undone += u32::from(again.producer_epoch != producer.epoch + 1);
        (producer.id, producer.epoch) = (again.producer_id, again.producer_epoch);
        producer.next = [0; 4];
        producer.begin(&mut client, &[(0, "next")]).await;
        assert_eq!(producer.end(&mut client, true).await, 0, "{what}");
        assert_eq!(committed(&mut client, 0).await.0.last().unwrap(), "next");
        node.stop().await;
    }
    assert!(done > 5 && lost > 5, "{done} answered, {lost} not");
    assert_eq!(undone, 0, "the epoch went up once");
}

/// What an end was answered, if it was.
async fn answer(client: &mut Client, id: i32, version: i16) -> Option<(i64, i16)> {
    use tidemill_wire::kafka::{ApiKey, read_response_head};
    let frame = tokio::time::timeout(std::time::Duration::from_millis(300), client.frame()).await;
    let mut frame = frame.ok()??;
    assert_eq!(read_response_head(&mut frame, ApiKey::EndTxn, version).unwrap(), id);
    let answer = EndTxnResponseData::read(&mut frame, version).unwrap();
    (answer.error_code == 0).then_some((answer.producer_id, answer.producer_epoch))
}

#[tokio::test]
async fn r7_whoever_comes_after_a_crash_aborts_what_was_open() {
    for death in DEATHS {
        let sim = World::simulated(3);
        let (node, mut client) = begun(&sim).await;
        let mut old = Producer::transactional(&mut client, "x", 2).await;
        old.begin(&mut client, &[(0, "a"), (1, "b")]).await;
        die(&sim, node, death).await;
        let node = self::node(&sim).await;
        let mut client = node.client().await;
        assert_eq!(committed(&mut client, 0).await, (vec![], 0), "R9: it is still open");
        let mut new = Producer::transactional(&mut client, "x", 2).await;
        assert_eq!(old.end(&mut client, true).await, code(ErrorCode::ProducerFenced));
        is_settled(&mut client).await;
        new.begin(&mut client, &[(0, "c")]).await;
        assert_eq!(new.end(&mut client, true).await, 0);
        assert_eq!(committed(&mut client, 0).await.0, ["c"], "{death:?}");
        assert_eq!(committed(&mut client, 1).await.0, Vec::<String>::new());
        node.stop().await;
    }
}

#[tokio::test]
async fn r9_r4_what_was_aborted_stays_so_and_no_offset_goes_back_over_restarts() {
    for death in DEATHS {
        let sim = World::simulated(9);
        let (mut node, mut client) = begun(&sim).await;
        let mut a = Producer::transactional(&mut client, "a", 2).await;
        let mut b = Producer::transactional(&mut client, "b", 1).await;
        let mut expected = Vec::new();
        let mut before = (0, 0);
        for round in 0..8 {
            let (from_a, from_b) = (format!("a{round}"), format!("b{round}"));
            a.begin(&mut client, &[(0, &from_a)]).await;
            b.begin(&mut client, &[(0, &from_b)]).await;
            assert_eq!(a.end(&mut client, round % 2 == 0).await, 0);
            if round % 2 == 0 {
                expected.push(from_a);
            }
            if round % 3 == 1 {
                die(&sim, node, death).await;
                node = self::node(&sim).await;
                client = node.client().await;
            }
            assert_eq!(b.end(&mut client, round % 3 == 0).await, 0);
            if round % 3 == 0 {
                expected.push(from_b);
            }
            let (seen, stable) = committed(&mut client, 0).await;
            assert_eq!(seen, expected, "{death:?}, round {round}");
            let now = (stable, watermark(&mut client, 0).await);
            assert!(now.0 >= before.0 && now.1 >= before.1, "{now:?} after {before:?}");
            assert_eq!(now.0, now.1);
            before = now;
        }
        node.stop().await;
    }
}

#[tokio::test]
async fn k4_a_crash_while_epochs_run_out_fences_nobody() {
    for death in DEATHS {
        for round in 0..3 {
            let sim = World::simulated(round);
            let (node, mut client) = begun(&sim).await;
            let mut producer = Producer::transactional(&mut client, "x", 2).await;
            node.broker.transactions.set_epoch("x", i16::MAX - 1).await;
            producer.epoch = i16::MAX - 1;
            producer.begin(&mut client, &[(0, "a")]).await;
            let (request, version) = producer.end_request(true);
            if round > 0 {
                assert_eq!(client.ask(&request, version).await.error_code, 0);
            }
            die(&sim, node, death).await;
            let node = self::node(&sim).await;
            let mut client = node.client().await;
            let again = client.ask(&request, version).await;
            assert_eq!(again.error_code, 0, "{death:?}");
            assert!(again.producer_id != producer.id && again.producer_epoch == 0);
            (producer.id, producer.epoch) = (again.producer_id, again.producer_epoch);
            producer.next = [0; 4];
            producer.begin(&mut client, &[(0, "b")]).await;
            assert_eq!(producer.end(&mut client, true).await, 0);
            assert_eq!(committed(&mut client, 0).await.0, ["a", "b"]);
            node.stop().await;
        }
    }
}
