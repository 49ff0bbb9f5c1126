//! Whose word counts while a cluster changes.

use super::*;
use crate::{
    Client, ClientOptions,
    testing::{FakeNode, Reply, versions_answer},
};
use std::sync::{Arc, Mutex};
use tidemill_env::World;
use tidemill_wire::kafka::{
    ApiKey,
    message::{
        ListOffsetsResponseData, MetadataResponseData,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        },
    },
};

/// What the living node of a cluster of two knows.
#[derive(Default)]
struct Known {
    address: String,
    asked: u32,
    /// How many answers name node 1, where nobody is, as the leader.
    late: u32,
}

fn metadata(known: &mut Known) -> MetadataResponseData {
    known.asked += 1;
    let leader = if known.asked <= known.late { 1 } else { 2 };
    // Nobody listens at port 1.
    let nodes = [(1, "127.0.0.1:1"), (2, known.address.as_str())].map(|(id, address)| {
        let (host, port) = address.rsplit_once(':').unwrap();
        let broker = MetadataResponseBroker::default().with_node_id(id);
        broker.with_host(text(host)).with_port(port.parse().unwrap())
    });
    let partition = MetadataResponsePartition::default().with_leader_id(leader);
    let topic = MetadataResponseTopic::default().with_name(Some(text("events")));
    MetadataResponseData::default()
        .with_brokers(nodes.to_vec())
        .with_topics(vec![topic.with_partitions(vec![partition])])
}

/// A cluster that says so often that the leader is a node that has died.
fn cluster(late: u32) -> (FakeNode, Client) {
    let known = Arc::new(Mutex::new(Known { late, ..Known::default() }));
    let served = Arc::clone(&known);
    let node = FakeNode::start(move |head, _| match ApiKey::from_i16(head.key) {
        Some(ApiKey::ApiVersions) => versions_answer(head),
        Some(ApiKey::Metadata) => Reply::message(head, &metadata(&mut served.lock().unwrap())),
        _ => {
            let row = ListOffsetsPartitionResponse::default().with_offset(7);
            let topic = ListOffsetsTopicResponse::default().with_name(text("events"));
            let answer = ListOffsetsResponseData::default();
            Reply::message(head, &answer.with_topics(vec![topic.with_partitions(vec![row])]))
        }
    });
    node.address().clone_into(&mut known.lock().unwrap().address);
    let options = ClientOptions {
        connect_timeout: Duration::from_millis(500),
        request_timeout: Duration::from_secs(2),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(5),
        ..ClientOptions::at(node.address())
    };
    let client = Client::new(&World::real(), options);
    (node, client)
}

#[test]
fn a_cluster_is_given_the_time_to_notice_that_a_leader_has_died() {
    let (_node, client) = cluster(6);
    let found = client.admin().offsets("events", OffsetAt::Latest).unwrap();
    assert_eq!(found[&0].offset, 7);
}

#[test]
fn a_leader_that_stays_away_is_told_as_one_that_the_cluster_names() {
    let (_node, client) = cluster(u32::MAX);
    let error = client.admin().offsets("events", OffsetAt::Latest).unwrap_err();
    let said = "the cluster names a node at 127.0.0.1:1, and there is none";
    assert!(error.to_string().starts_with(said), "{error}");
}
