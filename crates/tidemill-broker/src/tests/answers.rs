//! Long answers other than those to fetches: all that are not taken yet have a bound together.

use super::node::{Node, until};
use crate::frame::MemoryCharge;
use std::time::Duration;
use tidemill_types::ByteSize;
use tidemill_wire::kafka::{message::*, text};

const TOPICS: usize = 20;

/// A node with some topics, and a short request for much.
async fn node(transfer_ms: u64) -> (Node, DescribeConfigsRequestData) {
    let node = Node::start_with(|how| {
        how.settings.limits.answers_bytes = ByteSize(1 << 20);
        how.settings.limits.transfer_ms = transfer_ms;
    })
    .await;
    let mut client = node.client().await;
    let mut resources = Vec::new();
    for at in 0..TOPICS {
        let name = format!("t{at}");
        client.create(&name, 1).await;
        let resource = DescribeConfigsResource::default().with_resource_type(2);
        resources.push(resource.with_resource_name(text(&name)));
    }
    let request = DescribeConfigsRequestData::default()
        .with_resources(resources)
        .with_include_synonyms(true)
        .with_include_documentation(true);
    (node, request)
}

/// All that answers may have, and the turn of the one that may be beyond that.
fn all_of(node: &Node) -> MemoryCharge {
    let mut all = MemoryCharge::new(&node.broker.answers);
    assert!(all.set_in_turn((1 << 20) + 1));
    all
}

/// Waits until nothing is charged for answers.
async fn settled(node: &Node) {
    until(|| node.broker.answers.used() == 0).await;
}

#[tokio::test]
async fn a_long_answer_waits_for_room() {
    let (node, request) = node(30_000).await;
    let mut client = node.client().await;
    let all = all_of(&node);
    let id = client.send(&request, 4).await;
    let mut one = [0];
    let early = tokio::time::timeout(Duration::from_millis(100), client.socket.peek(&mut one));
    assert!(early.await.is_err(), "there is no room for it");
    drop(all);
    let answer = client.receive::<DescribeConfigsRequestData>(4, id).await;
    assert_eq!(answer.results.len(), TOPICS);
    settled(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn long_answers_come_one_after_another_to_who_asks_for_many_at_once() {
    let (node, request) = node(30_000).await;
    let mut client = node.client().await;
    let mut sent = Vec::new();
    for _ in 0..30 {
        sent.push(client.send(&request, 4).await);
    }
    for id in sent {
        let answer = client.receive::<DescribeConfigsRequestData>(4, id).await;
        assert_eq!(answer.results.len(), TOPICS);
    }
    settled(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn who_finds_no_room_in_time_is_closed_and_nobody_else() {
    let (node, request) = node(200).await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    let all = all_of(&node);
    client.send(&request, 4).await;
    assert!(client.is_closed().await);
    let short = request.with_resources(Vec::new());
    assert_eq!(other.ask(&short, 4).await.results.len(), 0);
    drop(all);
    settled(&node).await;
    node.stop().await;
}
