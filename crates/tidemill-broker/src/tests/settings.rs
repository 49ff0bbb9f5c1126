//! Settings of topics: how they are changed, and what the broker does with records for them.

use super::{client::*, node::Node};
use std::collections::BTreeMap;
use tidemill_env::World;
use tidemill_log::StreamSpec;
use tidemill_types::Micros;
use tidemill_wire::{
    chunk::Codec,
    kafka::{
        ErrorCode,
        message::{
            AlterConfigsRequestData, DescribeConfigsRequestData, DescribeConfigsResource,
            DescribeConfigsResourceResult, IncrementalAlterConfigsRequestData,
            OffsetCommitRequestData, alter_configs_request,
            incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
            offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        },
        text,
    },
    records::Compression,
};

/// Operations on a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Operation, name and value of each.
type Changes<'a> = &'a [(i8, &'a str, Option<&'a str>)];

fn keyless() -> Vec<u8> {
    chunk_at(&[1_000], b"value", Compression::NONE)
}

/// Changes settings of a topic (2) or a broker (4); the error's code.
async fn alter(client: &mut Client, of: (i8, &str), changes: Changes<'_>) -> i16 {
    altered(client, of, changes).await.0
}

/// As [`alter`]: the error's code and text.
async fn altered(
    client: &mut Client,
    (kind, name): (i8, &str),
    changes: Changes<'_>,
) -> (i16, String) {
    let config = |(operation, name, value): &(i8, &str, Option<&str>)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_value(value.map(text))
            .with_config_operation(*operation)
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(changes.iter().map(config).collect());
    let request = IncrementalAlterConfigsRequestData::default().with_resources(vec![resource]);
    let answer = only(client.ask(&request, 1).await.responses);
    (answer.error_code, answer.error_message.map_or_else(String::new, |it| it.to_string()))
}

/// What a topic's settings are, and whether the topic says so itself.
async fn shown(client: &mut Client, topic: &str) -> BTreeMap<String, (String, bool)> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text(topic))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequestData::default().with_resources(vec![resource]);
    let described = only(client.ask(&request, 4).await.results);
    assert_eq!(described.error_code, 0);
    let one = |it: DescribeConfigsResourceResult| {
        (it.name.to_string(), (it.value.unwrap().to_string(), it.config_source == 1))
    };
    described.configs.into_iter().map(one).collect()
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
    for (policy, keys, goes) in [
        ("compact", true, false),
        ("delete", false, true),
        ("", false, false),
        ("compact,delete", true, true),
    ] {
        let policy_set = [(SET, "cleanup.policy", Some(policy))];
        assert_eq!(alter(&mut client, (2, "t"), &policy_set).await, 0, "{policy}");
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

/// As in Kafka: what no topic could have is told before whether there is the topic.
#[tokio::test]
async fn settings_of_a_topic_that_is_not_there_are_refused_for_what_is_wrong_first() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let retention = "retention.ms";
    let lags =
        [(SET, "max.compaction.lag.ms", Some("1")), (SET, "min.compaction.lag.ms", Some("2"))];
    let (unknown, bad_name) =
        (ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidTopicException);
    let (config, request) = (ErrorCode::InvalidConfig, ErrorCode::InvalidRequest);
    let cases: &[(Changes<'_>, _, _, _)] = &[
        // What is asked; of a topic that is there, of one that is not, and of a name that none has.
        (&[], ErrorCode::None, unknown, bad_name),
        (&[(SET, retention, Some("5"))], ErrorCode::None, unknown, bad_name),
        (&[(DELETE, "none", None)], ErrorCode::None, unknown, bad_name),
        (&[(2, "cleanup.policy", Some("compact"))], ErrorCode::None, unknown, bad_name),
        (&[(SET, "none", Some("1"))], config, config, bad_name),
        (&[(SET, retention, Some("x"))], config, config, bad_name),
        (&lags, config, config, bad_name),
        (&[(2, retention, Some("5"))], config, config, config),
        (&[(3, "none", Some("5"))], config, config, config),
        (&[(SET, retention, None)], request, request, request),
        (&[(7, retention, Some("5"))], request, request, request),
        (&[(SET, retention, Some("5")), (SET, retention, Some("6"))], request, request, request),
    ];
    for (changes, there, not_there, no_name) in cases {
        // No topic is called nothing: so all topics would be meant.
        let all = if *no_name == bad_name { request } else { *no_name };
        for (name, expected) in [("t", *there), ("none", *not_there), ("a/b", *no_name), ("", all)]
        {
            let (found, why) = altered(&mut client, (2, name), changes).await;
            assert_eq!(found, code(expected), "{changes:?} of `{name}`: {why}");
            assert_eq!(why.is_empty(), expected == ErrorCode::None);
            let sets: Vec<_> = changes.iter().filter(|it| it.0 == SET).collect();
            if sets.len() < changes.len() {
                continue;
            }
            let config = |(_, name, value): &&(i8, &str, Option<&str>)| {
                alter_configs_request::AlterableConfig::default()
                    .with_name(text(name))
                    .with_value(value.map(text))
            };
            let resource = alter_configs_request::AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(name))
                .with_configs(sets.iter().map(config).collect());
            let asked = AlterConfigsRequestData::default().with_resources(vec![resource]);
            let answer = only(client.ask(&asked, 1).await.responses);
            assert_eq!(answer.error_code, code(expected), "all: {changes:?} of `{name}`");
            assert_eq!(answer.error_message.is_none(), expected == ErrorCode::None);
        }
    }
    let (_, why) = altered(&mut client, (2, "none"), &[]).await;
    assert_eq!(why, "there is no topic `none`");
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
        crate::upkeep::progress(&node.broker);
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

/// MirrorMaker sets what a topic's source has, and deletes all that has its default there.
#[tokio::test]
async fn a_setting_of_any_name_can_be_deleted() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create_with("t", 1, &[("retention.ms", "777")]).await;
    let synced = [
        (SET, "cleanup.policy", Some("compact")),
        (DELETE, "retention.ms", None),
        (DELETE, "min.insync.replicas", None),
        (DELETE, "remote.log.delete.on.disable", None),
        (DELETE, "no.such.setting", None),
        (DELETE, "no.other", Some("5")),
    ];
    assert_eq!(alter(&mut client, (2, "t"), &synced).await, 0);
    let spec = node.log.get("t").unwrap().spec();
    assert_eq!(spec.settings, [("cleanup.policy".to_owned(), "compact".to_owned())].into());
    assert_eq!(spec.retention, StreamSpec::default().retention);

    let invalid = code(ErrorCode::InvalidConfig);
    let refused = [(DELETE, "cleanup.policy", None), (SET, "no.such.setting", Some("1"))];
    assert_eq!(alter(&mut client, (2, "t"), &refused).await, invalid);
    assert_eq!(node.log.get("t").unwrap().spec(), spec, "all or nothing");

    for broker in ["1", ""] {
        let nothing = [(DELETE, "leader.replication.throttled.rate", None)];
        assert_eq!(alter(&mut client, (4, broker), &nothing).await, 0);
        let more = [(DELETE, "no.such.setting", None), (SET, "log.retention.ms", Some("1"))];
        let refused = code(ErrorCode::InvalidRequest);
        assert_eq!(alter(&mut client, (4, broker), &more).await, refused);
    }
    node.stop().await;
}

/// What MirrorMaker and deployments set, and what there is nothing here to do for.
#[tokio::test]
async fn settings_of_kafka_that_mean_nothing_here_are_kept_and_shown() {
    let kept = [
        ("compression.gzip.level", "-1", "7", "0"),
        ("compression.lz4.level", "9", "17", "0"),
        ("compression.zstd.level", "3", "-5", "23"),
        ("follower.replication.throttled.replicas", "", "0:1,2:3", "0:1,x"),
        ("leader.replication.throttled.replicas", "", "*", "1"),
        ("local.retention.bytes", "-2", "4096", "-3"),
        ("local.retention.ms", "-2", "-1", "soon"),
        ("max.compaction.lag.ms", "9223372036854775807", "5", "0"),
        ("message.timestamp.after.max.ms", "9223372036854775807", "3600000", "-1"),
        ("message.timestamp.before.max.ms", "9223372036854775807", "0", "long"),
        ("remote.log.copy.disable", "false", "true", "yes"),
        ("remote.log.delete.on.disable", "false", "true", ""),
        ("segment.index.bytes", "10485760", "4", "3"),
        ("segment.ms", "604800000", "1", "0"),
        ("unclean.leader.election.enable", "false", "true", "no"),
    ];
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("plain", 1).await;
    let all: Vec<_> = kept.iter().map(|(name, _, value, _)| (*name, *value)).collect();
    client.create_with("t", 1, &all).await;
    let (plain, set) = (shown(&mut client, "plain").await, shown(&mut client, "t").await);
    for (name, default, value, bad) in kept {
        assert_eq!(plain[name], (default.to_owned(), false), "{name}");
        assert_eq!(set[name], (value.to_owned(), true), "{name}");
        let refused = alter(&mut client, (2, "t"), &[(SET, name, Some(bad))]).await;
        assert_eq!(refused, code(ErrorCode::InvalidConfig), "{name} is not {bad}");
    }
    let deleted: Vec<_> = kept.iter().map(|it| (DELETE, it.0, None)).collect();
    assert_eq!(alter(&mut client, (2, "t"), &deleted).await, 0);
    assert_eq!(shown(&mut client, "t").await, plain);
    node.stop().await;
}

/// A topic's codec is what its creator wished for: its batches stay as they came, so that every
/// consumer reads them.
#[tokio::test]
async fn batches_stay_as_they_came_whatever_codec_a_topic_names() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let came = [Compression::NONE, Compression::of(Codec::Lz4)];
    for codec in ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"] {
        client.create_with(codec, 1, &[("compression.type", codec)]).await;
        assert_eq!(shown(&mut client, codec).await["compression.type"], (codec.to_owned(), true));
        for (offset, compression) in (0..).zip(came) {
            let sent = chunk_at(&[1_000], &[b'v'; 500], compression);
            assert_eq!(client.produce(codec, 0, sent.clone()).await.error_code, 0, "{codec}");
            let found = client.fetch(codec, 0, offset, 0).await.records.unwrap();
            // All but where it is: the base offset, and the leader's epoch.
            assert_eq!(found[16..], sent[16..], "{codec}");
        }
    }
    let refused = alter(&mut client, (2, "lz4"), &[(SET, "compression.type", Some("brotli"))]);
    assert_eq!(refused.await, code(ErrorCode::InvalidConfig));
    assert_eq!(shown(&mut client, "lz4").await["compression.type"].0, "lz4");
    node.stop().await;
}

/// Name, value, source and synonyms of a broker's setting.
async fn broker_setting(client: &mut Client, name: &str) -> (String, i8, Vec<(String, i8)>) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text("1"))
        .with_configuration_keys(Some(vec![text(name)]));
    let request = DescribeConfigsRequestData::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true);
    let setting = only(only(client.ask(&request, 4).await.results).configs);
    let synonyms = setting.synonyms.iter().map(|it| (it.name.to_string(), it.source)).collect();
    (setting.value.unwrap().to_string(), setting.config_source, synonyms)
}

#[tokio::test]
async fn settings_of_the_broker_tell_whether_they_were_set() {
    const STATIC: i8 = 4;
    const DEFAULT: i8 = 5;
    let node = Node::start_with(|how| {
        how.settings.stated.extend(["node.id", "num.partitions", "log.retention.ms"]);
        how.settings.limits.idle_ms = 5_000;
    })
    .await;
    let mut client = node.client().await;
    let both = |name: &str| vec![(name.to_owned(), STATIC), (name.to_owned(), DEFAULT)];
    for (name, value) in [
        // To their defaults.
        ("node.id", "1"),
        ("broker.id", "1"),
        ("num.partitions", "1"),
        ("log.retention.ms", "604800000"),
        // To something else.
        ("connections.max.idle.ms", "5000"),
    ] {
        let shown = broker_setting(&mut client, name).await;
        assert_eq!(shown, (value.to_owned(), STATIC, both(name)), "{name}");
    }
    for name in ["auto.create.topics.enable", "log.segment.bytes", "max.connections"] {
        let (_, source, synonyms) = broker_setting(&mut client, name).await;
        assert_eq!((source, synonyms), (DEFAULT, vec![(name.to_owned(), DEFAULT)]), "{name}");
    }
    // A topic's setting of its own, with those of the broker behind it.
    client.create_with("t", 1, &[("retention.ms", "5")]).await;
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configuration_keys(Some(vec![text("retention.ms")]));
    let request = DescribeConfigsRequestData::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true);
    let setting = only(only(client.ask(&request, 4).await.results).configs);
    let sources: Vec<i8> = setting.synonyms.iter().map(|it| it.source).collect();
    assert_eq!((setting.config_source, sources), (1, vec![1, STATIC, DEFAULT]));
    node.stop().await;
}
