"""Every version of every request that the broker says it knows is answered in that version."""

import pytest
from kafka.protocol import admin, consumer, metadata, producer

import wire
from agents import OLDER_JAVA, record
from waiting import wait

pytestmark = pytest.mark.records


def requests(topic, batch):
    """A sensible request of each kind, by its class; fields that a version does not have are left out by it."""
    made = topic + "-made"
    produced = producer.ProduceRequest.TopicProduceData(
        name=topic, partition_data=[producer.ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=batch)])
    fetched = consumer.FetchRequest.FetchTopic(topic=topic, partitions=[consumer.FetchRequest.FetchTopic.FetchPartition(
        partition=0, fetch_offset=0, current_leader_epoch=-1, log_start_offset=-1, partition_max_bytes=1 << 20)])
    offsets = consumer.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[consumer.ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=-1)])
    created = admin.CreateTopicsRequest.CreatableTopic(name=made, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    resource = dict(resource_type=2, resource_name=topic)
    committed = consumer.OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[consumer.OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata="")])
    grown = admin.CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    cut = admin.DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[admin.DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition(partition_index=0, offset=0)])
    epochs = consumer.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[consumer.OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=-1, leader_epoch=0)])
    logs = admin.DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0])
    active = admin.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])
    group = topic + "-group"
    yield metadata.ApiVersionsRequest, dict(client_software_name="wire", client_software_version="1")
    yield metadata.MetadataRequest, dict(topics=[metadata.MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    yield producer.ProduceRequest, dict(transactional_id=None, acks=-1, timeout_ms=5000, topic_data=[produced])
    yield consumer.FetchRequest, dict(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=0, session_id=0, session_epoch=-1, topics=[fetched])
    yield consumer.ListOffsetsRequest, dict(replica_id=-1, isolation_level=0, topics=[offsets])
    yield consumer.OffsetForLeaderEpochRequest, dict(replica_id=-1, topics=[epochs])
    yield admin.CreateTopicsRequest, dict(topics=[created], timeout_ms=5000, validate_only=True)
    yield admin.DeleteTopicsRequest, dict(topics=[admin.DeleteTopicsRequest.DeleteTopicState(name=made)], topic_names=[made], timeout_ms=5000)
    yield admin.CreatePartitionsRequest, dict(topics=[grown], timeout_ms=5000, validate_only=True)
    yield admin.DeleteRecordsRequest, dict(topics=[cut], timeout_ms=5000)
    yield admin.DescribeConfigsRequest, dict(resources=[admin.DescribeConfigsRequest.DescribeConfigsResource(configuration_keys=None, **resource)], include_synonyms=True, include_documentation=True)
    yield admin.AlterConfigsRequest, dict(resources=[admin.AlterConfigsRequest.AlterConfigsResource(configs=[], **resource)], validate_only=True)
    yield admin.IncrementalAlterConfigsRequest, dict(resources=[admin.IncrementalAlterConfigsRequest.AlterConfigsResource(configs=[], **resource)], validate_only=True)
    yield admin.DescribeLogDirsRequest, dict(topics=[logs])
    yield admin.DescribeClusterRequest, dict(include_cluster_authorized_operations=True, endpoint_type=1)
    yield admin.DescribeTopicPartitionsRequest, dict(topics=[admin.DescribeTopicPartitionsRequest.TopicRequest(name=topic)], response_partition_limit=100, cursor=None)
    yield admin.DescribeProducersRequest, dict(topics=[active])
    yield admin.ListTransactionsRequest, dict(state_filters=[], producer_id_filters=[], duration_filter=-1)
    yield admin.DescribeTransactionsRequest, dict(transactional_ids=["none"])
    yield metadata.FindCoordinatorRequest, dict(key=group, key_type=0, coordinator_keys=[group])
    yield producer.InitProducerIdRequest, dict(transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)
    yield consumer.OffsetCommitRequest, dict(group_id=group, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, retention_time_ms=-1, topics=[committed])
    yield consumer.OffsetFetchRequest, dict(
        group_id=group, topics=[consumer.OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])], require_stable=True,
        groups=[consumer.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1, topics=[
            consumer.OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])])])
    yield consumer.JoinGroupRequest, dict(group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="nobody", group_instance_id=None, protocol_type="consumer", protocols=[
        consumer.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")], reason=None)
    yield consumer.SyncGroupRequest, dict(group_id=group, generation_id=1, member_id="nobody", group_instance_id=None, protocol_type="consumer", protocol_name="range", assignments=[])
    yield consumer.HeartbeatRequest, dict(group_id=group, generation_id=1, member_id="nobody", group_instance_id=None)
    yield consumer.LeaveGroupRequest, dict(group_id=group, member_id="nobody", members=[consumer.LeaveGroupRequest.MemberIdentity(member_id="nobody", group_instance_id=None, reason=None)])
    yield admin.DescribeGroupsRequest, dict(groups=[group], include_authorized_operations=True)
    yield admin.ListGroupsRequest, dict(states_filter=[], types_filter=[])
    yield admin.DeleteGroupsRequest, dict(groups_names=["no-such-group"])


@pytest.mark.parametrize("asking", [it for it, _ in requests("t", b"")], ids=lambda it: it.__name__)
def test_every_version_is_answered(asking, broker, topic):
    name = topic()
    with wire.Connection(broker.address) as connection:
        known = wire.api_versions(connection)
        # What is read below has something in it.
        wait(lambda: wire.produce(connection, name, wire.batch([b"first"]))[0] == 0, 10, "a record is stored")
    fields = dict(requests(name, wire.batch([b"v"] * 3)))[asking]
    assert asking.API_KEY in known, f"{asking.name} is not known"
    first, last = known[asking.API_KEY]
    # Kafka lists the first versions of Produce for an old librdkafka, and does not take them (KIP-896).
    first = max(first, 3) if asking is producer.ProduceRequest else first
    for version in range(first, min(last, asking.max_version) + 1):
        with wire.Connection(broker.address) as connection:
            asked = asking[version](**{field: value for field, value in fields.items() if field in asking.fields})
            try:
                answer = connection.call(asked)
            except OSError as error:
                raise AssertionError(f"{asking.name} version {version}: {error}") from error
            assert answer.API_VERSION == version
            assert getattr(answer, "error_code", 0) != -1, f"{asking.name} version {version}: {answer}"


def features(connection, version):
    """(level that is in force, levels that are known) of each feature, by name."""
    answer = connection.call(metadata.ApiVersionsRequest[version](client_software_name="wire", client_software_version="1"))
    return {it.name: it.max_version_level for it in answer.finalized_features}, {it.name: (it.min_version, it.max_version) for it in answer.supported_features}


def test_features_known_from_level_0_are_not_told_to_older_clients(broker):
    """Java clients before 3.9, which ask in version 3, end the connection at one (KAFKA-17011)."""
    with wire.Connection(broker.address) as connection:
        finalized, supported = features(connection, 3)
        assert finalized["transaction.version"] == 2
        assert all(first > 0 for first, _ in supported.values()), supported
        finalized, supported = features(connection, 4)
        assert finalized["transaction.version"] == 2
        assert supported["transaction.version"] == (0, 2)


def test_an_older_java_client_writes_reads_and_has_transactions(agent, open_clients, topic, name):
    older = agent(OLDER_JAVA)
    assert older.ask("versions")["client"].startswith("3.7.")
    source, target = topic(), topic()
    open_clients.producer(older, codec="zstd").must_send(source, [record(f"{i}") for i in range(30)])
    done, transactions = older.ask("transform", source=source, target=target, group=name("g"), transactional_id=name("x"), count=30, abort=[1])
    assert done == 30 and transactions > 1
    found = open_clients.consumer(older, assign=[[target, 0]], isolation="read_committed").read(30)
    assert sorted(int(it.value) for it in found) == list(range(30))
