//! What transactional ids may take of a node.

use super::{
    client::*,
    node::Node,
    producer::{Producer, init},
};
use std::{sync::Arc, time::Duration};
use tidemill_env::{SimClock, World};
use tidemill_types::ByteSize;
use tidemill_wire::kafka::{ErrorCode, message::*, text};

const PARTITIONS: i32 = 300;

/// Adds all partitions of `t` to the transaction of a producer.
async fn add(client: &mut Client, id: &str, producer: &InitProducerIdResponseData) -> i16 {
    let topic = AddPartitionsToTxnTopic::default()
        .with_name(text("t"))
        .with_partitions((0..PARTITIONS).collect());
    let request = AddPartitionsToTxnRequestData::default()
        .with_v3_and_below_transactional_id(text(id))
        .with_v3_and_below_producer_id(producer.producer_id)
        .with_v3_and_below_producer_epoch(producer.producer_epoch)
        .with_v3_and_below_topics(vec![topic]);
    let topic = only(client.ask(&request, 3).await.results_by_topic_v3_and_below);
    topic.results_by_partition[0].partition_error_code
}

/// Asks until it is done, as producers do.
async fn until_done(client: &mut Client, id: &str, producer: &InitProducerIdResponseData) {
    let done = async {
        loop {
            match add(client, id, producer).await {
                0 => return,
                other => assert_eq!(other, code(ErrorCode::CoordinatorNotAvailable)),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("there is never room again");
}

#[tokio::test]
async fn all_transactions_together_have_a_bound_and_give_room_back_when_they_end() {
    let node = Node::start_with(|how| {
        how.settings.limits.transactions.bytes = ByteSize(64 << 10);
    })
    .await;
    let mut client = node.client().await;
    client.create("t", PARTITIONS).await;
    let mut producers = Vec::new();
    for id in ["x", "y"] {
        let producer = client.ask(&init(id, 60_000), 5).await;
        assert_eq!(producer.error_code, 0);
        producers.push(producer);
    }
    assert_eq!(add(&mut client, "x", &producers[0]).await, 0);
    let refused = code(ErrorCode::CoordinatorNotAvailable);
    assert_eq!(add(&mut client, "y", &producers[1]).await, refused);
    assert_eq!(add(&mut client, "x", &producers[0]).await, 0, "they are in it already");
    let end = EndTxnRequestData::default()
        .with_transactional_id(text("x"))
        .with_producer_id(producers[0].producer_id)
        .with_producer_epoch(producers[0].producer_epoch)
        .with_committed(false);
    assert_eq!(client.ask(&end, 3).await.error_code, 0);
    until_done(&mut client, "y", &producers[1]).await;
    // Ids alone fill it up too.
    let mut made = 0;
    while client.ask(&init(&format!("z{made}"), 60_000), 5).await.error_code == 0 {
        made += 1;
        assert!(made < 64);
    }
    assert_eq!(client.ask(&init("x", 60_000), 5).await.error_code, 0, "one that is there");
    node.stop().await;
}

#[tokio::test]
async fn an_id_that_not_every_version_can_say_is_refused() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for (bytes, error) in [(32_767, ErrorCode::None), (32_768, ErrorCode::InvalidRequest)] {
        let answer = client.ask(&init(&"i".repeat(bytes), 60_000), 5).await;
        assert_eq!(answer.error_code, code(error), "{bytes}");
    }
    node.stop().await;
}

#[tokio::test]
async fn an_id_that_could_not_be_stored_takes_no_place() {
    let sim = World::simulated(5);
    let node = Node::start_with(|how| {
        how.world = Some(sim.process());
        how.settings.limits.transactions.ids = 2;
    })
    .await;
    let mut client = node.client().await;
    assert_eq!(client.ask(&init("a", 60_000), 5).await.error_code, 0);
    sim.disk.fail_after(0);
    let refused = client.ask(&init("b", 60_000), 5).await.error_code;
    assert_eq!(refused, code(ErrorCode::CoordinatorNotAvailable));
    let again = async {
        while client.ask(&init("c", 60_000), 5).await.error_code != 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.expect("`b` has its place");
    node.stop().await;
}

/// The ids that a node has.
async fn ids(client: &mut Client) -> Vec<String> {
    let listed = client.ask(&ListTransactionsRequestData::default(), 0).await.transaction_states;
    let mut ids: Vec<_> = listed.iter().map(|it| it.transactional_id.to_string()).collect();
    ids.sort();
    ids
}

async fn until_ids(client: &mut Client, expected: &[&str]) {
    let so = async {
        while ids(client).await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), so).await.expect("they stay, or go");
}

const HOUR_US: u64 = 3_600_000_000;

#[tokio::test]
async fn an_id_is_forgotten_by_its_last_use_though_the_node_was_started_in_between() {
    let sim = World::simulated(6);
    let node = Node::start_with(|how| how.world = Some(sim.process())).await;
    let mut client = node.client().await;
    for id in ["old", "young"] {
        assert_eq!(client.ask(&init(id, 60_000), 5).await.error_code, 0);
        sim.clock.advance(100 * HOUR_US);
    }
    node.stop().await;
    // A start begins the monotonic clock anew.
    let clock = Arc::new(SimClock::default());
    clock.jump_wall(200 * HOUR_US as i64);
    let world = World { clock, ..sim.process() };
    let node = Node::start_with(|how| how.world = Some(world)).await;
    until_ids(&mut node.client().await, &["young"]).await;
    node.stop().await;
}

#[tokio::test]
async fn the_idlest_ids_make_room_but_not_those_that_were_just_used() {
    let sim = World::simulated(7);
    let node = Node::start_with(|how| {
        how.world = Some(sim.process());
        how.settings.limits.transactions.ids = 3;
    })
    .await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let mut open = Producer::transactional(&mut client, "open", 2).await;
    assert_eq!(open.send(&mut client, 0, &["x"]).await.0, 0);
    for id in ["a", "b"] {
        assert_eq!(client.ask(&init(id, 60_000), 5).await.error_code, 0);
        sim.clock.advance(1_000_000);
    }
    node.broker.transactions.tend(&node.broker).await;
    let refused = code(ErrorCode::CoordinatorNotAvailable);
    assert_eq!(client.ask(&init("c", 60_000), 5).await.error_code, refused);
    sim.clock.advance(HOUR_US / 4 - 1_000_000);
    until_ids(&mut client, &["b", "open"]).await;
    assert_eq!(client.ask(&init("c", 60_000), 5).await.error_code, 0);
    node.stop().await;
}
