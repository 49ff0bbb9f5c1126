//! Consumer groups as a client sees them, in every version of each request.

use super::{client::Client, node::Node};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid, known_versions,
    message::{
        describe_groups_response::DescribedGroup,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        *,
    },
    {ApiKey, text},
};

const SESSION_MS: i32 = 10_000;

fn join(group: &str, member: &str) -> JoinGroupRequestData {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(subscription("t").into());
    JoinGroupRequestData::default()
        .with_group_id(text(group))
        .with_session_timeout_ms(SESSION_MS)
        .with_rebalance_timeout_ms(60_000)
        .with_member_id(text(member))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// What a consumer of one topic says of itself.
fn subscription(topic: &str) -> Vec<u8> {
    let length = i16::try_from(topic.len()).unwrap().to_be_bytes();
    [&[0, 0, 0, 0, 0, 1][..], &length, topic.as_bytes(), &[0xff; 4]].concat()
}

fn sync(group: &str, joined: &JoinGroupResponseData) -> SyncGroupRequestData {
    let assigned = |it: &JoinGroupResponseMember| {
        SyncGroupRequestAssignment::default()
            .with_member_id(it.member_id.clone())
            .with_assignment(it.member_id.as_bytes().to_vec().into())
    };
    SyncGroupRequestData::default()
        .with_group_id(text(group))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(joined.members.iter().map(assigned).collect())
}

fn heartbeat(group: &str, member: &KafkaString, generation: i32) -> HeartbeatRequestData {
    HeartbeatRequestData::default()
        .with_group_id(text(group))
        .with_generation_id(generation)
        .with_member_id(member.clone())
}

fn leave(group: &str, member: &KafkaString, version: i16) -> LeaveGroupRequestData {
    let request = LeaveGroupRequestData::default().with_group_id(text(group));
    if version < 3 {
        return request.with_member_id(member.clone());
    }
    request.with_members(vec![MemberIdentity::default().with_member_id(member.clone())])
}

/// Joins with an id if one is needed, and without if not.
async fn enter(client: &mut Client, group: &str, version: i16) -> JoinGroupResponseData {
    let first = client.ask(&join(group, ""), version).await;
    if version < 4 {
        return first;
    }
    assert_eq!(first.error_code, ErrorCode::MemberIdRequired.code());
    client.ask(&join(group, first.member_id.as_str()), version).await
}

fn commit_of(
    group: &str,
    (member, generation): (&str, i32),
    (topic, id): (&str, KafkaUuid),
    partition: i32,
    offset: i64,
    version: i16,
) -> OffsetCommitRequestData {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text("why")));
    let mut topic_asked = OffsetCommitRequestTopic::default().with_partitions(vec![partition]);
    if version >= 10 {
        topic_asked.topic_id = id;
    } else {
        topic_asked.name = text(topic);
    }
    OffsetCommitRequestData::default()
        .with_group_id(text(group))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(member))
        .with_topics(vec![topic_asked])
}

pub(super) async fn commit(
    client: &mut Client,
    group: &str,
    member: (&str, i32),
    topic: (&str, KafkaUuid),
    offset: i64,
    version: i16,
) -> ErrorCode {
    let request = commit_of(group, member, topic, 0, offset, version);
    let mut answer = client.ask(&request, version).await;
    ErrorCode::from(answer.topics.remove(0).partitions[0].error_code)
}

/// Offset and metadata of partition 0.
pub(super) async fn committed(
    client: &mut Client,
    group: &str,
    (topic, id): (&str, KafkaUuid),
    version: i16,
) -> (i64, String, ErrorCode) {
    let request = OffsetFetchRequestData::default();
    let (offset, metadata, error) = if version < 8 {
        let topic = OffsetFetchRequestTopic::default()
            .with_name(text(topic))
            .with_partition_indexes(vec![0]);
        let request = request.with_group_id(text(group)).with_topics(Some(vec![topic]));
        let answer = client.ask(&request, version).await;
        let it = answer.topics[0].partitions[0].clone();
        (it.committed_offset, it.metadata, it.error_code)
    } else {
        let asked = OffsetFetchRequestTopics::default().with_partition_indexes(vec![0]);
        let asked =
            if version >= 10 { asked.with_topic_id(id) } else { asked.with_name(text(topic)) };
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(text(group))
            .with_member_epoch(-1)
            .with_topics(Some(vec![asked]));
        let answer = client.ask(&request.with_groups(vec![asked]), version).await;
        let it = answer.groups[0].topics[0].partitions[0].clone();
        (it.committed_offset, it.metadata, it.error_code)
    };
    let metadata = metadata.map(|it| it.as_str().to_owned()).unwrap_or_default();
    (offset, metadata, ErrorCode::from(error))
}

async fn describe(client: &mut Client, group: &str, version: i16) -> DescribedGroup {
    let request = DescribeGroupsRequestData::default().with_groups(vec![text(group)]);
    client.ask(&request, version).await.groups.remove(0)
}

async fn node() -> Node {
    Node::start_with(|how| how.settings.groups.initial_delay_ms = 0).await
}

#[tokio::test]
async fn a_member_joins_syncs_lives_and_leaves_in_every_version() {
    let node = node().await;
    let mut client = node.client().await;
    let newest = |key| *known_versions(key).end();
    for version in 0..=newest(ApiKey::JoinGroup) {
        let group = format!("group {version}");
        let joined = enter(&mut client, &group, version).await;
        assert_eq!(joined.error_code, 0, "version {version}");
        assert_eq!((joined.generation_id, joined.members.len()), (1, 1));
        assert_eq!(joined.leader, joined.member_id);
        assert_eq!(joined.protocol_name, Some(text("range")));
        assert_eq!(joined.protocol_type.is_some(), version >= 7);
        let member = joined.member_id.clone();
        let sync_version = version.min(newest(ApiKey::SyncGroup));
        let mut request = sync(&group, &joined);
        if sync_version >= 5 {
            request.protocol_type = Some(text("consumer"));
            request.protocol_name = Some(text("range"));
        }
        let synced = client.ask(&request, sync_version).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, member.as_bytes()));
        for version in known_versions(ApiKey::Heartbeat) {
            let alive = client.ask(&heartbeat(&group, &member, 1), version).await;
            assert_eq!(alive.error_code, 0);
            let early = client.ask(&heartbeat(&group, &member, 2), version).await;
            assert_eq!(early.error_code, ErrorCode::IllegalGeneration.code());
        }
        let described = describe(&mut client, &group, version.min(6)).await;
        assert_eq!(described.group_state, text("Stable"));
        assert_eq!(described.protocol_data, text("range"));
        let member_described = &described.members[0];
        assert_eq!(member_described.client_host, text("/127.0.0.1"));
        assert_eq!(&member_described.member_assignment[..], member.as_bytes());
        assert_eq!(member_described.member_metadata, subscription("t"));
        let version = version.min(newest(ApiKey::LeaveGroup));
        let left = client.ask(&leave(&group, &member, version), version).await;
        assert_eq!(left.error_code, 0);
        assert!(left.members.iter().all(|it| it.error_code == 0));
        let again = client.ask(&leave(&group, &member, version), version).await;
        let unknown = ErrorCode::UnknownMemberId.code();
        match version {
            0..3 => assert_eq!(again.error_code, unknown),
            _ => assert_eq!((again.error_code, again.members[0].error_code), (0, unknown)),
        }
        assert_eq!(describe(&mut client, &group, 5).await.group_state, text("Empty"));
    }
    node.stop().await;
}

#[tokio::test]
async fn two_members_share_a_generation_and_a_zombie_is_fenced() {
    let node = node().await;
    let mut one = node.client().await;
    let mut two = node.client().await;
    let topic = ("t", one.create("t", 2).await);
    let alone = enter(&mut one, "g", 9).await;
    assert_eq!(one.ask(&sync("g", &alone), 5).await.error_code, 0);
    let first = alone.member_id.as_str();
    assert_eq!(commit(&mut one, "g", (first, 1), topic, 5, 9).await, ErrorCode::None);
    // The second one waits until the first has noticed and joins again.
    let wanted = two.ask(&join("g", ""), 9).await;
    let second = two.send(&join("g", wanted.member_id.as_str()), 9).await;
    let told = loop {
        let told = one.ask(&heartbeat("g", &alone.member_id, 1), 4).await.error_code;
        if told != 0 {
            break told;
        }
    };
    assert_eq!(told, ErrorCode::RebalanceInProgress.code());
    // Who looks sees what members still have.
    let described = describe(&mut one, "g", 5).await;
    assert_eq!(described.group_state, text("PreparingRebalance"));
    let had = |id: &str| described.members.iter().find(|it| it.member_id.as_str() == id).unwrap();
    assert_eq!(had(first).member_assignment, first.as_bytes());
    assert!(had(first).member_metadata.is_empty());
    assert!(had(wanted.member_id.as_str()).member_assignment.is_empty());
    let led = one.ask(&join("g", first), 9).await;
    let followed = two.receive::<JoinGroupRequestData>(9, second).await;
    assert_eq!((led.generation_id, led.members.len()), (2, 2));
    assert_eq!((followed.generation_id, followed.members.len()), (2, 0));
    assert_eq!(followed.leader, led.member_id);
    // While the leader has not assigned nobody may commit.
    let early = commit(&mut one, "g", (first, 2), topic, 6, 9).await;
    assert_eq!(early, ErrorCode::RebalanceInProgress);
    let waits = two.send(&sync("g", &followed), 5).await;
    assert_eq!(one.ask(&sync("g", &led), 5).await.assignment, first.as_bytes());
    let assigned = two.receive::<SyncGroupRequestData>(5, waits).await;
    assert_eq!(assigned.assignment, followed.member_id.as_bytes());
    // K7: of an earlier generation, of nobody, and of somebody else.
    for (member, generation, error) in [
        (first, 1, ErrorCode::IllegalGeneration),
        (first, 3, ErrorCode::IllegalGeneration),
        ("somebody", 2, ErrorCode::UnknownMemberId),
        ("", -1, ErrorCode::UnknownMemberId),
    ] {
        assert_eq!(commit(&mut one, "g", (member, generation), topic, 9, 9).await, error);
    }
    assert_eq!(committed(&mut two, "g", topic, 9).await.0, 5);
    node.stop().await;
}

#[tokio::test]
async fn offsets_are_committed_and_found_in_every_version() {
    let node = node().await;
    let mut client = node.client().await;
    let topic = ("t", client.create("t", 2).await);
    let mut offset = 0;
    for version in known_versions(ApiKey::OffsetCommit) {
        offset += 1;
        let outcome = commit(&mut client, "g", ("", -1), topic, offset, version).await;
        assert_eq!(outcome, ErrorCode::None, "version {version}");
        for version in known_versions(ApiKey::OffsetFetch) {
            let found = committed(&mut client, "g", topic, version).await;
            assert_eq!(found, (offset, "why".to_owned(), ErrorCode::None), "version {version}");
            let none = committed(&mut client, "other", topic, version).await;
            assert_eq!(none, (-1, String::new(), ErrorCode::None));
        }
    }
    // All topics of a group, in the oldest and the newest form.
    let all = OffsetFetchRequestData::default().with_group_id(text("g")).with_topics(None);
    assert_eq!(client.ask(&all, 7).await.topics[0].partitions[0].committed_offset, offset);
    for version in [8, 10] {
        let group = OffsetFetchRequestGroup::default().with_group_id(text("g")).with_topics(None);
        let all = OffsetFetchRequestData::default().with_groups(vec![group]);
        let answer = client.ask(&all, version).await;
        let found = &answer.groups[0].topics[0];
        assert_eq!(found.partitions[0].committed_offset, offset);
        assert_eq!(found.topic_id == topic.1, version == 10);
    }
    node.stop().await;
}

#[tokio::test]
async fn what_cannot_be_committed_is_told_and_the_rest_is_committed() {
    let node = node().await;
    let mut client = node.client().await;
    let topic = ("t", client.create("t", 2).await);
    let request = |partition, offset| commit_of("g", ("", -1), topic, partition, offset, 9);
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let mut many = request(0, 7);
    let mut long = request(1, 8);
    long.topics[0].partitions[0].committed_metadata = Some(text(&"x".repeat(4097)));
    many.topics.extend(long.topics);
    many.topics.extend(request(2, 9).topics);
    many.topics.extend(commit_of("g", ("", -1), ("nothing", KafkaUuid::ZERO), 0, 1, 9).topics);
    let answer = client.ask(&many, 9).await;
    let codes: Vec<i16> = answer.topics.iter().map(|it| it.partitions[0].error_code).collect();
    assert_eq!(codes, [0, ErrorCode::OffsetMetadataTooLarge.code(), unknown, unknown]);
    assert_eq!(committed(&mut client, "g", topic, 9).await.0, 7);
    let stranger = ("nothing", KafkaUuid::from_parts(1, 2));
    let outcome = commit(&mut client, "g", ("", -1), stranger, 1, 10).await;
    assert_eq!(outcome, ErrorCode::UnknownTopicId);
    assert_eq!(committed(&mut client, "g", stranger, 10).await.2, ErrorCode::UnknownTopicId);
    // A member's commit to a group that is not there.
    let outcome = commit(&mut client, "new", ("m", 3), topic, 1, 9).await;
    assert_eq!(outcome, ErrorCode::IllegalGeneration);
    node.stop().await;
}

#[tokio::test]
async fn a_topic_that_is_made_again_has_no_offsets() {
    let node = node().await;
    let mut client = node.client().await;
    let topic = ("t", client.create("t", 1).await);
    assert_eq!(commit(&mut client, "g", ("", -1), topic, 7, 9).await, ErrorCode::None);
    let gone = DeleteTopicsRequestData::default().with_topic_names(vec![text("t")]);
    assert_eq!(client.ask(&gone, 5).await.responses[0].error_code, 0);
    let topic = ("t", client.create("t", 1).await);
    assert_eq!(committed(&mut client, "g", topic, 9).await.0, -1);
    node.stop().await;
}

#[tokio::test]
async fn groups_are_listed_described_and_deleted() {
    let node = node().await;
    let mut client = node.client().await;
    let topic = ("t", client.create("t", 1).await);
    assert_eq!(commit(&mut client, "simple", ("", -1), topic, 7, 9).await, ErrorCode::None);
    let joined = enter(&mut client, "members", 9).await;
    assert_eq!(client.ask(&sync("members", &joined), 5).await.error_code, 0);
    let in_member = (joined.member_id.as_str(), 1);
    assert_eq!(commit(&mut client, "members", in_member, topic, 7, 9).await, ErrorCode::None);
    for version in known_versions(ApiKey::ListGroups) {
        let listed = client.ask(&ListGroupsRequestData::default(), version).await.groups;
        let ids: Vec<&str> = listed.iter().map(|it| it.group_id.as_str()).collect();
        assert_eq!(ids, ["members", "simple"]);
        assert_eq!(listed[0].protocol_type, text("consumer"));
        if version >= 4 {
            assert_eq!(listed[0].group_state, text("Stable"));
        }
    }
    let filtered = |states: &[&str], types: &[&str]| {
        let words = |it: &[&str]| it.iter().map(|it| text(it)).collect();
        ListGroupsRequestData::default()
            .with_states_filter(words(states))
            .with_types_filter(words(types))
    };
    for (states, types, count) in [
        (&["Stable"][..], &[][..], 1),
        (&["Empty", "stable"], &["Classic"], 2),
        (&["Dead"], &[], 0),
        (&[], &["consumer"], 0),
    ] {
        let listed = client.ask(&filtered(states, types), 5).await.groups;
        assert_eq!(listed.len(), count, "{states:?} {types:?}");
    }
    assert_eq!(describe(&mut client, "nobody", 5).await.group_state, text("Dead"));
    let missing = describe(&mut client, "nobody", 6).await.error_code;
    assert_eq!(missing, ErrorCode::GroupIdNotFound.code());
    // Offsets of a topic that members read stay.
    let delete_offset = |group: &str| {
        let partition = OffsetDeleteRequestPartition::default();
        let topic = OffsetDeleteRequestTopic::default()
            .with_name(text("t"))
            .with_partitions(vec![partition]);
        OffsetDeleteRequestData::default().with_group_id(text(group)).with_topics(vec![topic])
    };
    let kept = client.ask(&delete_offset("members"), 0).await;
    let subscribed = ErrorCode::GroupSubscribedToTopic.code();
    assert_eq!((kept.error_code, kept.topics[0].partitions[0].error_code), (0, subscribed));
    let gone = client.ask(&delete_offset("simple"), 0).await;
    assert_eq!((gone.error_code, gone.topics[0].partitions[0].error_code), (0, 0));
    assert_eq!(committed(&mut client, "simple", topic, 9).await.0, -1);
    let none = client.ask(&delete_offset("nobody"), 0).await.error_code;
    assert_eq!(none, ErrorCode::GroupIdNotFound.code());
    let names = ["members", "simple", "nobody", "simple"].map(text).to_vec();
    let request = DeleteGroupsRequestData::default().with_groups_names(names);
    for version in known_versions(ApiKey::DeleteGroups) {
        let codes = client.ask(&request, version).await.results;
        let codes: Vec<i16> = codes.iter().map(|it| it.error_code).collect();
        let gone = if version == 0 { 0 } else { ErrorCode::GroupIdNotFound.code() };
        let non_empty = ErrorCode::NonEmptyGroup.code();
        let expected = [non_empty, gone, ErrorCode::GroupIdNotFound.code()];
        assert_eq!(codes, expected, "each is answered once");
    }
    assert_eq!(client.ask(&ListGroupsRequestData::default(), 5).await.groups.len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn this_node_coordinates_all_in_every_version() {
    let node = node().await;
    let mut client = node.client().await;
    let port = i32::from(node.address().port());
    for version in known_versions(ApiKey::FindCoordinator) {
        let keys = vec![text("a"), text("b")];
        let request = FindCoordinatorRequestData::default();
        let request = if version < 4 {
            request.with_key(text("a"))
        } else {
            request.with_coordinator_keys(keys)
        };
        for kind in 0..=i8::from(version >= 1) {
            let answer = client.ask(&request.clone().with_key_type(kind), version).await;
            if version < 4 {
                assert_eq!((answer.error_code, answer.node_id, answer.port), (0, 1, port));
            } else {
                let found = answer.coordinators;
                let found: Vec<_> =
                    found.iter().map(|it| (it.key.as_str(), it.error_code, it.port)).collect();
                assert_eq!(found, [("a", 0, port), ("b", 0, port)]);
            }
        }
    }
    let other = FindCoordinatorRequestData::default()
        .with_key_type(2)
        .with_coordinator_keys(vec![text("a")]);
    let refused = client.ask(&other, 6).await.coordinators.remove(0);
    assert_eq!(refused.error_code, ErrorCode::InvalidRequest.code());
    node.stop().await;
}

#[tokio::test]
async fn requests_that_make_no_sense_have_the_protocols_errors() {
    let node = node().await;
    let mut client = node.client().await;
    let code = |it: ErrorCode| it.code();
    let nameless = client.ask(&join("", ""), 9).await;
    assert_eq!(nameless.error_code, code(ErrorCode::InvalidGroupId));
    for session_ms in [-1, 0, 5_999, 1_800_001] {
        let request = join("g", "").with_session_timeout_ms(session_ms);
        let refused = client.ask(&request, 9).await;
        assert_eq!(refused.error_code, code(ErrorCode::InvalidSessionTimeout));
    }
    let unknown = client.ask(&join("g", "somebody"), 9).await;
    assert_eq!(unknown.error_code, code(ErrorCode::UnknownMemberId));
    let nothing = client.ask(&join("g", "").with_protocols(Vec::new()), 9).await;
    assert_eq!(nothing.error_code, code(ErrorCode::InconsistentGroupProtocol));
    let beat = client.ask(&heartbeat("none", &text("m"), 1), 4).await;
    assert_eq!(beat.error_code, code(ErrorCode::UnknownMemberId));
    let beat = client.ask(&heartbeat("", &text("m"), 1), 4).await;
    assert_eq!(beat.error_code, code(ErrorCode::InvalidGroupId));
    let left = client.ask(&leave("none", &text("m"), 5), 5).await;
    assert_eq!((left.error_code, left.members[0].error_code), (0, 25));
    node.stop().await;
}

/// A client of the newer protocol must see at once that it is not there, and wait for nothing.
#[tokio::test]
async fn a_member_of_the_newer_protocol_is_told_to_use_the_classic_one() {
    let node = node().await;
    let mut client = node.client().await;
    let request = ConsumerGroupHeartbeatRequestData::default()
        .with_group_id(text("g"))
        .with_member_id(text("m"))
        .with_subscribed_topic_names(Some(vec![text("t")]));
    for version in known_versions(ApiKey::ConsumerGroupHeartbeat) {
        let answer = client.ask(&request, version).await;
        assert_eq!(answer.error_code, ErrorCode::UnsupportedVersion.code());
        assert!(answer.error_message.unwrap().as_str().contains("group.protocol=classic"));
    }
    let listed = client.ask(&ListGroupsRequestData::default(), 5).await;
    assert!(listed.groups.is_empty(), "it made no group");
}

/// Nobody knows what it reads, so it may read anything.
#[tokio::test]
async fn offsets_of_a_member_whose_words_nobody_reads_are_not_deleted() {
    let node = node().await;
    let mut client = node.client().await;
    let topic = ("t", client.create("t", 1).await);
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    let request = join("g", "").with_protocols(vec![protocol]);
    let joined = client.ask(&request, 3).await;
    let delete = OffsetDeleteRequestData::default().with_group_id(text("g")).with_topics(vec![
        OffsetDeleteRequestTopic::default()
            .with_name(text("t"))
            .with_partitions(vec![OffsetDeleteRequestPartition::default()]),
    ]);
    assert_eq!(client.ask(&sync("g", &joined), 3).await.error_code, 0);
    let member = (joined.member_id.as_str(), joined.generation_id);
    assert_eq!(commit(&mut client, "g", member, topic, 7, 9).await, ErrorCode::None);
    let kept = client.ask(&delete, 0).await.topics[0].partitions[0].error_code;
    assert_eq!(kept, ErrorCode::GroupSubscribedToTopic.code());
    assert_eq!(committed(&mut client, "g", topic, 9).await.0, 7);
    let left = client.ask(&leave("g", &joined.member_id, 2), 2).await.error_code;
    assert_eq!(left, 0);
    let gone = client.ask(&delete, 0).await.topics[0].partitions[0].error_code;
    assert_eq!(gone, 0);
    assert_eq!(committed(&mut client, "g", topic, 9).await.0, -1);
    node.stop().await;
}
