//! What stays, what goes, and what is not believed.

use super::*;
use tidemill_wire::kafka::message::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition,
};

fn topic(name: &str, code: i16, leaders: &[(i32, i32)]) -> MetadataResponseTopic {
    let partitions = leaders.iter().map(|(index, leader)| {
        MetadataResponsePartition::default().with_partition_index(*index).with_leader_id(*leader)
    });
    MetadataResponseTopic::default()
        .with_name(Some(text(name)))
        .with_error_code(code)
        .with_partitions(partitions.collect())
}

fn answer(topics: Vec<MetadataResponseTopic>) -> MetadataResponseData {
    let broker = MetadataResponseBroker::default().with_node_id(7).with_host(text("::1"));
    MetadataResponseData::default()
        .with_brokers(vec![broker.clone().with_port(92), broker.with_node_id(8).with_port(70_000)])
        .with_controller_id(7)
        .with_topics(topics)
}

#[test]
fn leaders_are_found_and_odd_numbers_are_not_believed() {
    let topics = vec![topic("a", 0, &[(0, 7), (1, -1), (-5, 7), (i32::MAX, 7)])];
    let metadata = Metadata::read(&answer(topics), &Metadata::default(), 5);
    assert_eq!(metadata.nodes, BTreeMap::from([(NodeId(7), "[::1]:92".to_owned())]));
    assert_eq!(metadata.leader("a", 0), Some(NodeId(7)));
    assert_eq!(metadata.leader("a", 1), None);
    assert_eq!(metadata.streams["a"].streamlet_count(), 2);
    assert_eq!(metadata.leader("b", 0), None);
}

#[test]
fn what_an_answer_does_not_speak_of_stays() {
    let first = answer(vec![topic("a", 0, &[(0, 7)]), topic("b", 0, &[(0, 7)])]);
    let first = Metadata::read(&first, &Metadata::default(), 5);
    // LEADER_NOT_AVAILABLE: the leaders known before are as good as any.
    let second = Metadata::read(&answer(vec![topic("a", 5, &[])]), &first, 6);
    assert_eq!(second.leader("a", 0), Some(NodeId(7)));
    assert_eq!(second.streams["a"].code, ErrorCode::LeaderNotAvailable);
    assert_eq!(second.leader("b", 0), Some(NodeId(7)));
    // UNKNOWN_TOPIC_OR_PARTITION: it is gone.
    let third = Metadata::read(&answer(vec![topic("a", 3, &[])]), &second, 7);
    assert_eq!(third.leader("a", 0), None);
}
