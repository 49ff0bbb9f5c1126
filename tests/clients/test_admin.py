"""Topics, configs, the cluster: what the admin clients of four libraries ask."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewPartitions, NewTopic, ResourceType
from kafka import KafkaAdminClient
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeTopicPartitionsRequest,
)
from kafka.protocol.metadata import MetadataRequest

import wire
from agents import Failed, record
from waiting import wait

pytestmark = pytest.mark.records

UNKNOWN_TOPIC, INVALID_TOPIC, EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_CONFIG, INVALID_REQUEST = 3, 17, 36, 37, 38, 40, 42
UNKNOWN_ID = 100


@pytest.fixture
def java(agent):
    return agent("java")


def refused(code, action, *more, **asked):
    with pytest.raises(Failed) as found:
        action(*more, **asked)
    assert found.value.code == code, f"{found.value}"


def test_topics_are_made_described_and_deleted(java, name):
    made = name()
    created = java.ask("create_topic", topic=made, partitions=5)
    assert (created["partitions"], created["replicas"]) == (5, 1)
    described = java.ask("describe_topic", topic=made)
    assert described["id"] == created["id"] != "AAAAAAAAAAAAAAAAAAAAAA"
    node = java.ask("cluster")["nodes"][0][0]
    assert described["partitions"] == [[i, node, 1, 1] for i in range(5)]
    assert made in java.ask("topics")
    refused(EXISTS, java.ask, "create_topic", topic=made, partitions=1)
    java.ask("delete_topic", topic=made)
    wait(lambda: made not in java.ask("topics"), 10, "the topic is gone")
    refused(UNKNOWN_TOPIC, java.ask, "describe_topic", topic=made)
    refused(UNKNOWN_TOPIC, java.ask, "delete_topic", topic=made)


def test_a_topic_made_again_is_another(java, agent, open_clients, name):
    made = name()
    first = java.ask("create_topic", topic=made, partitions=1)
    open_clients.producer(agent("franz-go")).must_send(made, [record("old")] * 10)
    java.ask("delete_topic", topic=made)
    wait(lambda: made not in java.ask("topics"), 10, "the topic is gone")
    again = wait(lambda: recreated(java, made), 10, "the topic is made again")
    assert again["id"] != first["id"]
    assert java.ask("list_offset", topic=made, partition=0, spec="latest")[0] == 0
    assert open_clients.producer(agent("librdkafka")).must_send(made, [record("new")])[0][1] == 0
    assert [it.value for it in open_clients.consumer(agent("kafka-python"), assign=[[made, 0]]).read(1)] == ["new"]
    java.ask("delete_topic_by_id", topic_id=again["id"])
    refused(UNKNOWN_ID, java.ask, "delete_topic_by_id", topic_id=again["id"])


def recreated(java, topic):
    try:
        return java.ask("create_topic", topic=topic, partitions=1)
    except Failed as error:
        assert error.code == EXISTS
        return None


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "../../etc/passwd", "a b", "ä", "a\0b", "x" * 250, "a\nb", "a\\b", "%2e%2e"])
def test_bad_names_are_refused(bad, broker):
    with wire.Connection(broker.address) as connection:
        topics = [CreateTopicsRequest.CreatableTopic(name=bad, num_partitions=1, replication_factor=1, assignments=[], configs=[])]
        answer = connection.call(CreateTopicsRequest[5](topics=topics, timeout_ms=10_000, validate_only=False))
        assert answer.topics[0].error_code == INVALID_TOPIC
        found = wire.metadata(connection, [bad], create=True).topics[0]
        assert found.error_code in (INVALID_TOPIC, UNKNOWN_TOPIC) and not found.partitions
        assert wire.produce(connection, bad, wire.batch([b"x"]))[0] in (INVALID_TOPIC, UNKNOWN_TOPIC)


def test_names_that_differ_in_dots_alone_are_refused(java, name):
    made = name("a.b_c")
    java.ask("create_topic", topic=made, partitions=1)
    for other in [made.replace(".", "_"), made.replace("_", ".")]:
        refused(INVALID_TOPIC, java.ask, "create_topic", topic=other, partitions=1)
    java.ask("delete_topic", topic=made)
    wait(lambda: made not in java.ask("topics"), 10, "the topic is gone")
    java.ask("create_topic", topic=made.replace(".", "_"), partitions=1)


@pytest.mark.parametrize("bad", [
    {"segment.ms": "0"}, {"segment.index.bytes": "3"}, {"compression.gzip.level": "0"}, {"max.compaction.lag.ms": "0"},
    {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, {"leader.replication.throttled.replicas": "x"},
    {"index.interval.bytes": "-1"}])
def test_settings_out_of_bounds_are_refused(java, name, bad):
    refused(INVALID_CONFIG, java.ask, "create_topic", topic=name(), partitions=1, config=bad)


@pytest.mark.parametrize("good", [
    {"cleanup.policy": ""}, {"retention.bytes": "-2"}, {"segment.ms": "1"}, {"segment.index.bytes": "4"}, {"compression.gzip.level": "-1"},
    {"min.compaction.lag.ms": "1", "max.compaction.lag.ms": "1"}, {"leader.replication.throttled.replicas": "0:1,1:1"},
    {"follower.replication.throttled.replicas": "*"}])
def test_settings_at_their_bounds_are_taken(java, name, good):
    java.ask("create_topic", topic=name(), partitions=1, config=good)


def test_names_at_the_edge_are_fine(java, name):
    for good in (name("x" * 238)[:249], name("A.b-C_9"), name("...")):
        assert java.ask("create_topic", topic=good, partitions=1)["partitions"] == 1
        java.ask("delete_topic", topic=good)


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"num_partitions": 0}, INVALID_PARTITIONS),
        ({"num_partitions": -2}, INVALID_PARTITIONS),
        ({"replication_factor": 0}, INVALID_REPLICATION),
        ({"replication_factor": 3}, INVALID_REPLICATION),
        ({"configs": [("no.such.config", "1")]}, INVALID_CONFIG),
        ({"configs": [("retention.ms", "soon")]}, INVALID_CONFIG),
        ({"configs": [("cleanup.policy", "burn")]}, INVALID_CONFIG),
        ({"configs": [("max.message.bytes", "-5")]}, INVALID_CONFIG),
    ],
)
def test_topics_that_cannot_be(fields, code, broker, name, java):
    made = name()
    fields = {"num_partitions": 1, "replication_factor": 1, "configs": [], **fields}
    fields["configs"] = [CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=it, value=value) for it, value in fields["configs"]]
    with wire.Connection(broker.address) as connection:
        topics = [CreateTopicsRequest.CreatableTopic(name=made, assignments=[], **fields)]
        answer = connection.call(CreateTopicsRequest[5](topics=topics, timeout_ms=10_000, validate_only=False))
        assert (answer.topics[0].name, answer.topics[0].error_code) == (made, code)
    assert made not in java.ask("topics")


def test_only_validating_makes_nothing(broker, java, name):
    made = name()
    with wire.Connection(broker.address) as connection:
        topics = [CreateTopicsRequest.CreatableTopic(name=made, num_partitions=-1, replication_factor=-1, assignments=[], configs=[])]
        assert connection.call(CreateTopicsRequest[5](topics=topics, timeout_ms=10_000, validate_only=True)).topics[0].error_code == 0
        assert made not in java.ask("topics")
        # The broker's own default counts, of partitions and of copies.
        found = connection.call(CreateTopicsRequest[5](topics=topics, timeout_ms=10_000, validate_only=False)).topics[0]
        assert (found.error_code, found.num_partitions, found.replication_factor) == (0, 1, 1)
        # One name twice in a request is neither.
        assert [it.error_code for it in connection.call(DeleteTopicsRequest[5](topic_names=[made], timeout_ms=10_000)).responses] == [0]


# kafka-python sees new partitions only while it is in poll(), and not always then.
@pytest.mark.parametrize("client", ["librdkafka", "franz-go", "java"])
def test_partitions_are_added_while_a_client_writes_and_reads(java, agent, open_clients, topic, client):
    name = topic(2)
    producer = open_clients.producer(agent(client))
    consumer = open_clients.consumer(agent(client), topics=[name], group=name, java={"metadata.max.age.ms": "500"})
    producer.must_send(name, [record(f"{i}", partition=i) for i in range(2)])
    assert sorted(it.partition for it in consumer.read(2)) == [0, 1]
    consumer.commit()
    java.ask("create_partitions", topic=name, count=5)
    refused(INVALID_PARTITIONS, java.ask, "create_partitions", topic=name, count=5)
    refused(INVALID_PARTITIONS, java.ask, "create_partitions", topic=name, count=3)
    assert len(wait(lambda: five(java, name), 10, "five partitions"))
    # The reader notices, and joins its group anew for it; it has polled nothing new meanwhile.
    wait(lambda: consumer.poll(1, 200) == [] and len(consumer.assignment()) == 5, 30, "the reader has five partitions")
    open_clients.producer(agent(client)).must_send(name, [record(f"{i}", partition=i) for i in range(5)])
    assert sorted((it.partition, it.offset) for it in consumer.read(5)) == [(0, 1), (1, 1), (2, 0), (3, 0), (4, 0)]
    refused(UNKNOWN_TOPIC, java.ask, "create_partitions", topic=name + "-not", count=3)


def test_a_topic_that_is_named_twice_gets_no_partitions_and_one_answer(broker, java, topic):
    twice, once = topic(), topic()
    with wire.Connection(broker.address) as connection:
        ask = lambda name, count: CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        topics = [ask(twice, 3), ask(once, 2), ask(twice, 4), ask(twice, 3)]
        answer = connection.call(CreatePartitionsRequest[3](topics=topics, timeout_ms=10_000, validate_only=False))
    assert sorted((it.name, it.error_code) for it in answer.results) == sorted([(twice, INVALID_REQUEST), (once, 0)])
    assert len(java.ask("describe_topic", topic=twice)["partitions"]) == 1


def test_a_cursor_before_the_first_partition_is_refused(broker, topic):
    made, asked = topic(), DescribeTopicPartitionsRequest
    with wire.Connection(broker.address) as connection:
        for names in ([made, "nobody.has.made.it"], []):
            cursor = asked.Cursor(topic_name=made, partition_index=-1)
            topics = [asked.TopicRequest(name=it) for it in names]
            answer = connection.call(asked[0](topics=topics, response_partition_limit=10, cursor=cursor))
            assert [(it.name, it.error_code, len(it.partitions)) for it in answer.topics] == [(it, INVALID_REQUEST, 0) for it in names]
            assert answer.next_cursor is None


def five(java, topic):
    found = java.ask("describe_topic", topic=topic)["partitions"]
    return found if len(found) == 5 else None


def test_configs_of_a_topic(java, topic):
    name = topic(retention_ms="3600000")
    found = java.ask("describe_configs", topic=name)
    assert found["retention.ms"] == ["3600000", "DYNAMIC_TOPIC_CONFIG", False]
    for expected in ("cleanup.policy", "max.message.bytes", "retention.bytes", "segment.bytes", "message.timestamp.type", "min.insync.replicas", "compression.type"):
        assert expected in found, f"{expected} of {sorted(found)}"
    assert found["cleanup.policy"][0] == "delete" and found["max.message.bytes"][0] == "1048588"
    java.ask("alter_configs", topic=name, changes=[["SET", "retention.bytes", "1000000"], ["SET", "max.message.bytes", "5000"], ["DELETE", "retention.ms"]])
    found = java.ask("describe_configs", topic=name)
    assert found["retention.bytes"][0] == "1000000" and found["max.message.bytes"][0] == "5000"
    assert found["retention.ms"][1] != "DYNAMIC_TOPIC_CONFIG"
    refused(INVALID_CONFIG, java.ask, "alter_configs", topic=name, changes=[["SET", "max.message.bytes", "many"]])
    refused(INVALID_CONFIG, java.ask, "alter_configs", topic=name, changes=[["SET", "no.such.config", "1"]])
    refused(UNKNOWN_TOPIC, java.ask, "describe_configs", topic=name + "-not")
    assert java.ask("describe_configs", topic=name)["max.message.bytes"][0] == "5000"


def test_what_a_mirror_sets_and_deletes(java, topic):
    """MirrorMaker 2 sets what a topic has at its source, and deletes all that has its default there, of whatever name."""
    name = topic(retention_ms="3600000", local_retention_ms="60000", compression_zstd_level="5")
    found = java.ask("describe_configs", topic=name)
    assert found["local.retention.ms"][:2] == ["60000", "DYNAMIC_TOPIC_CONFIG"] and found["compression.zstd.level"][0] == "5"
    deleted = ["retention.ms", "local.retention.ms", "compression.zstd.level", "remote.log.delete.on.disable", "no.such.config"]
    java.ask("alter_configs", topic=name, changes=[["SET", "cleanup.policy", "compact"]] + [["DELETE", it] for it in deleted])
    found = java.ask("describe_configs", topic=name)
    assert found["cleanup.policy"][0] == "compact"
    assert not [it for it in deleted if it in found and found[it][1] == "DYNAMIC_TOPIC_CONFIG"]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_may_name_any_codec(java, agent, open_clients, topic, codec):
    name = topic(compression_type=codec)
    assert java.ask("describe_configs", topic=name)["compression.type"][:2] == [codec, "DYNAMIC_TOPIC_CONFIG"]
    sent = [f"{i}" * 100 for i in range(20)]
    open_clients.producer(agent("librdkafka"), codec="lz4").must_send(name, [record(it) for it in sent[:10]])
    open_clients.producer(agent("java"), codec="none").must_send(name, [record(it) for it in sent[10:]])
    for reader in ("franz-go", "kafka-python"):
        assert [it.value for it in open_clients.consumer(agent(reader), assign=[[name, 0]]).read(20)] == sent


def test_a_changed_config_counts_at_once(java, agent, open_clients, topic):
    name = topic()
    producer = open_clients.producer(agent("kafka-python"))
    producer.must_send(name, [record("x" * 10_000)])
    java.ask("alter_configs", topic=name, changes=[["SET", "max.message.bytes", "5000"]])
    (found,) = open_clients.producer(agent("kafka-python")).send(name, [record("x" * 10_000)])
    assert isinstance(found, Failed) and found.code == 10
    java.ask("alter_configs", topic=name, changes=[["DELETE", "max.message.bytes"]])
    assert open_clients.producer(agent("kafka-python")).must_send(name, [record("x" * 10_000)])[0][1] == 1


def test_configs_of_the_broker(java):
    node = str(java.ask("cluster")["nodes"][0][0])
    found = java.ask("describe_configs", broker=node)
    for expected in ("num.partitions", "auto.create.topics.enable", "message.max.bytes", "log.retention.ms"):
        assert expected in found, f"{expected} of {sorted(found)}"
    assert found["num.partitions"][0] == "1" and found["auto.create.topics.enable"][0] == "true"


def test_the_cluster(java, broker):
    found = java.ask("cluster")
    assert found["id"] and found["nodes"] == [[found["controller"], "127.0.0.1", broker.port]]
    python = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        assert python.describe_cluster()["cluster_id"] == found["id"]
    finally:
        python.close()
    assert AdminClient({"bootstrap.servers": broker.address}).describe_cluster().result(10).cluster_id == found["id"]


def test_sizes_on_disk(java, agent, open_clients, topic):
    name = topic(2)
    open_clients.producer(agent("java"), codec="none").must_send(name, [record("x" * 10_000)] * 10)
    found = java.ask("log_dirs")
    assert found[f"{name}-0"] >= 100_000 and found[f"{name}-1"] < 100_000


def test_librdkafka_admin(broker, name):
    """The other requests of its admin client, which speaks older versions than Java's."""
    admin, made = AdminClient({"bootstrap.servers": broker.address}), name()
    admin.create_topics([NewTopic(made, 3, 1, config={"retention.ms": "7200000"})])[made].result(10)
    assert len(wait(lambda: admin.list_topics(timeout=10).topics.get(made), 10, "listed").partitions) == 3
    resource = ConfigResource(ResourceType.TOPIC, made)
    assert admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "7200000"
    # The older request replaces all settings of the topic, not only those that it names.
    changed = ConfigResource(ResourceType.TOPIC, made, set_config={"retention.bytes": "5000000"})
    admin.alter_configs([changed])[changed].result(10)

    def settings():
        found = admin.describe_configs([resource])[resource].result(10)
        return found["retention.bytes"].value, found["retention.ms"].value

    wait(lambda: settings() == ("5000000", "604800000"), 10, "one is set, the other as by default")
    admin.create_partitions([NewPartitions(made, 4)])[made].result(10)
    wait(lambda: len(admin.list_topics(timeout=10).topics[made].partitions) == 4, 10, "four partitions")
    with pytest.raises(KafkaException) as refusal:
        admin.create_topics([NewTopic(made, 3, 1)])[made].result(10)
    assert refusal.value.args[0].code() == EXISTS
    admin.delete_topics([made])[made].result(10)
    wait(lambda: made not in admin.list_topics(timeout=10).topics, 10, "gone")


def test_kafka_python_admin(broker, name):
    admin, made = KafkaAdminClient(bootstrap_servers=broker.address), name()
    try:
        admin.create_topics({made: {"num_partitions": 2, "replication_factor": 1}})
        assert made in wait(lambda: admin.list_topics(), 10, "listed")
        (described,) = admin.describe_topics([made])
        assert len(described["partitions"]) == 2
        admin.delete_topics([made])
        wait(lambda: made not in admin.list_topics(), 10, "gone")
    finally:
        admin.close()


def test_metadata_by_topic_id(broker, topic):
    made = topic(3)
    with wire.Connection(broker.address) as connection:
        id = wire.metadata(connection, [made], version=12).topics[0].topic_id
        asked = [MetadataRequest.MetadataRequestTopic(topic_id=id, name=None)]
        found = connection.call(MetadataRequest[12](topics=asked, allow_auto_topic_creation=False)).topics[0]
        assert (found.error_code, found.name, len(found.partitions)) == (0, made, 3)
        asked = [MetadataRequest.MetadataRequestTopic(topic_id="11111111-2222-3333-4444-555555555555", name=None)]
        assert connection.call(MetadataRequest[12](topics=asked, allow_auto_topic_creation=False)).topics[0].error_code == UNKNOWN_ID


def test_asking_about_a_topic_makes_it_only_if_allowed(broker, name):
    missing = name()
    with wire.Connection(broker.address) as connection:
        assert wire.metadata(connection, [missing], create=False).topics[0].error_code == UNKNOWN_TOPIC
        assert missing not in [it.name for it in wire.metadata(connection).topics]
        wait(lambda: wire.metadata(connection, [missing], create=True).topics[0].error_code == 0, 10, "made")
        # No list at all means all topics, an empty one none.
        assert missing in [it.name for it in wire.metadata(connection).topics]
        assert wire.metadata(connection, []).topics == []


def test_everything_is_there_after_a_restart(own_broker, own_agent, open_clients, name):
    broker = own_broker()
    java, made, gone = own_agent("java", broker), name(), name("gone")
    before = java.ask("create_topic", topic=made, partitions=3, config={"retention.ms": "7200000"})
    java.ask("create_topic", topic=gone, partitions=1)
    java.ask("delete_topic", topic=gone)
    producer = open_clients.producer(java)
    producer.must_send(made, [record(f"{i}", partition=i % 3) for i in range(300)])
    java.ask("delete_records", topic=made, partition=0, offset=50)
    cluster = java.ask("cluster")["id"]
    broker.restart()
    assert java.ask("cluster")["id"] == cluster
    after = java.ask("describe_topic", topic=made)
    assert after["id"] == before["id"] and len(after["partitions"]) == 3
    assert gone not in java.ask("topics")
    assert java.ask("describe_configs", topic=made)["retention.ms"][0] == "7200000"
    assert [java.ask("list_offset", topic=made, partition=i, spec="earliest")[0] for i in range(3)] == [50, 0, 0]
    # The producer that was there before goes on.
    assert [it[1] for it in producer.must_send(made, [record("after", partition=i) for i in range(3)])] == [100, 100, 100]
    found = open_clients.consumer(java, assign=[[made, i] for i in range(3)]).read(253)
    for partition in range(3):
        ours = [(it.offset, it.value) for it in found if it.partition == partition]
        first = 50 if partition == 0 else 0
        assert ours == [(i, f"{3 * i + partition}") for i in range(first, 100)] + [(100, "after")]


def test_a_topic_that_is_named_twice_is_described_once(broker, topic):
    made = topic(2)
    with wire.Connection(broker.address) as connection:
        (found,) = wire.metadata(connection, [made, made]).topics
        assert (found.error_code, len(found.partitions)) == (0, 2)


def test_internal_topics_are_listed_and_cannot_be_changed(broker):
    admin = AdminClient({"bootstrap.servers": broker.address})
    names = {"__consumer_offsets", "__transaction_state"}
    # Apache Kafka makes them when they are used first.
    there = names & set(admin.list_topics(timeout=10).topics)
    described = admin.describe_topics(TopicCollection(sorted(there)))
    assert all(it.result(10).is_internal for it in described.values())
    for internal in there:
        with pytest.raises(KafkaException) as refusal:
            admin.create_topics([NewTopic(internal, 1, 1)])[internal].result(10)
        assert refusal.value.args[0].code() == EXISTS
        errors = []
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce(internal, b"no", partition=0, on_delivery=lambda error, _: errors.append(error.code()))
        producer.flush(10)
        assert errors == [INVALID_TOPIC]


def test_a_consumer_of_an_internal_topic_reads_nothing(kind, broker, name):
    if kind == "kafka":
        pytest.skip("there are records in Apache Kafka's")
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": name("g"), "auto.offset.reset": "earliest", "enable.partition.eof": True})
    try:
        consumer.subscribe(["__consumer_offsets"])
        message = wait(lambda: consumer.poll(1), 30, "the end")
        assert (message.error().code(), message.offset()) == (KafkaError._PARTITION_EOF, 0)
        consumer.commit(offsets=[TopicPartition("__consumer_offsets", 0, 0)], asynchronous=False)
    finally:
        consumer.close()


def test_settings_of_a_broker_tell_their_source(broker):
    admin = AdminClient({"bootstrap.servers": broker.address})
    id = next(iter(admin.list_topics(timeout=10).brokers))
    resource = ConfigResource(ResourceType.BROKER, str(id))
    settings = admin.describe_configs([resource])[resource].result(10)
    # The tests start each broker with an address of its own, and say nothing of segments.
    assert settings["listeners"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert settings["delete.topic.enable"].source == ConfigSource.DEFAULT_CONFIG.value
