//! Settings of topics that change what the broker does with their records.

use super::{client::*, node::Node};
use tidemill_env::World;
use tidemill_types::Micros;
use tidemill_wire::{
    kafka::{
        ErrorCode,
        message::{
            IncrementalAlterConfigsRequestData, OffsetCommitRequestData,
            incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
            offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        },
        text,
    },
    records::Compression,
};

fn keyless() -> Vec<u8> {
    chunk_at(&[1_000], b"value", Compression::NONE)
}

async fn set_policy(client: &mut Client, policy: &str) {
    let config = AlterableConfig::default()
        .with_name(text("cleanup.policy"))
        .with_value(Some(text(policy)))
        .with_config_operation(0);
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequestData::default().with_resources(vec![resource]);
    assert_eq!(only(client.ask(&request, 1).await.responses).error_code, 0, "{policy}");
}

#[tokio::test]
async fn a_compacted_topic_wants_keys_and_keeps_all() {
    let sim = World::simulated(1);
    let node = Node::start_with(|how| how.world = Some(sim.process())).await;
    let mut client = node.client().await;
    let day_ms = "86400000";
    client.create_with("t", 1, &[("retention.ms", day_ms), ("segment.bytes", "65536")]).await;
    let old = vec!["x".repeat(1_000); 60];
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let no_key = code(ErrorCode::InvalidRecord);
    for (policy, keys, goes) in
        [("compact", true, false), ("delete", false, true), ("compact,delete", true, true)]
    {
        set_policy(&mut client, policy).await;
        let answer = client.produce("t", 0, keyless()).await;
        assert_eq!(answer.error_code == no_key, keys, "{policy}");
        for _ in 0..3 {
            assert_eq!(client.produce("t", 0, chunk(&old)).await.error_code, 0, "{policy}");
        }
        sim.clock.advance(3 * 86_400_000_000);
        let gone = node.log.maintain(Micros(sim.world.clock.wall_micros())).unwrap();
        assert_eq!(gone > 0, goes, "{policy}");
    }
    node.stop().await;
}

#[tokio::test]
async fn what_all_named_groups_have_read_goes() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let forever = [("retention.ms", "-1"), ("segment.bytes", "65536")];
    let named = [&forever[..], &[("tidemill.retention.groups", "a, b")]].concat();
    client.create_with("t", 1, &named).await;
    let value = "x".repeat(1_000);
    for _ in 0..20 {
        let answer = client.produce("t", 0, chunk(&vec![value.as_str(); 20])).await;
        assert_eq!(answer.error_code, 0);
    }
    let streamlet = node.log.get("t").unwrap().streamlet(0).unwrap();
    let now = || Micros(World::real().clock.wall_micros());
    let round = || {
        crate::tending::progress(&node.broker);
        node.log.maintain(now()).unwrap();
        streamlet.start_offset()
    };
    let commit = |group: &str, offset: i64| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(text("t"))
            .with_partitions(vec![partition]);
        OffsetCommitRequestData::default()
            .with_group_id(text(group))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic])
    };
    assert_eq!(round(), 0, "nobody has read anything");
    client.ask(&commit("a", 400), 8).await;
    assert_eq!(round(), 0, "one of them has not");
    client.ask(&commit("b", 250), 8).await;
    let start = round();
    assert!((150..=250).contains(&start), "{start}: whole segments below 250");
    client.ask(&commit("b", 100), 8).await;
    assert_eq!(round(), start, "who goes back finds nothing new to lose");
    client.ask(&commit("b", 400), 8).await;
    let last = round();
    assert!((start + 1..400).contains(&last), "{last}: the open segment stays");
    drop(streamlet);
    node.stop().await;
}
