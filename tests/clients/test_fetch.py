"""Fetches as no client library sends them: which partitions come first, and topics that go while they are read."""

import threading
import time

import pytest
from kafka.protocol.admin import DeleteRecordsRequest, DeleteTopicsRequest
from kafka.protocol.consumer import FetchRequest

import wire
from agents import Failed
from waiting import wait

pytestmark = pytest.mark.records

UNKNOWN_TOPIC, UNKNOWN_ID, INCONSISTENT_ID, SESSION_OF_OTHERS = 3, 100, 103, 106
# The last version that names topics by their names, and one that has their ids.
BY_NAME, BY_ID = 12, 17
NONE, NEW = (0, -1), (0, 0)


@pytest.fixture
def connection(broker):
    with wire.Connection(broker.address) as found:
        yield found


@pytest.fixture
def other(broker):
    with wire.Connection(broker.address) as found:
        yield found


def request(asked, session=NONE, version=BY_NAME, max_bytes=1 << 24, max_wait_ms=0):
    """`asked` are (topic, partition, offset); topics are ids from BY_ID on."""
    kind = FetchRequest.FetchTopic
    place = lambda index, offset: kind.FetchPartition(
        partition=index, fetch_offset=offset, current_leader_epoch=-1, last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=1 << 20)
    topics = [kind(**{"topic" if version == BY_NAME else "topic_id": topic}, partitions=[place(*at)]) for topic, *at in asked]
    return FetchRequest[version](
        cluster_id=None, replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=0,
        session_id=session[0], session_epoch=session[1], topics=topics, forgotten_topics_data=[], rack_id="")


def told(answer):
    """(partition, error, whether there are records) of all in an answer without an error, in its order."""
    assert answer.error_code == 0
    return [(it.partition_index, it.error_code, bool(it.records)) for topic in answer.responses for it in topic.partitions]


def written(connection, topic, partitions):
    for partition in range(partitions):
        wire.produce(connection, topic, wire.batch([b"v" * 1000]), partition=partition)


def test_without_a_session_partitions_are_served_in_the_order_of_asking(connection, topic):
    made = topic(partitions=4)
    written(connection, made, 4)
    for order in ([2, 0, 3, 1], [2, 0, 3, 1], [1, 0, 2, 3], [3, 2, 1, 0]):
        for session in (NONE, NEW):
            answer = connection.call(request([(made, it, 0) for it in order], session, max_bytes=1500))
            assert told(answer) == [(it, 0, it == order[0]) for it in order]


def test_in_a_session_partitions_take_turns(connection, topic):
    made = topic(partitions=4)
    written(connection, made, 4)
    began = connection.call(request([(made, it, 0) for it in (2, 0, 3, 1)], NEW, max_bytes=1500))
    turns = [connection.call(request([], (began.session_id, epoch), max_bytes=1500)) for epoch in range(1, 9)]
    first = [told(it)[0] for it in turns]
    assert all(has for _, _, has in first) and sorted(it[0] for it in first) == [0, 0, 1, 1, 2, 2, 3, 3], first


@pytest.fixture
def java(agent):
    return agent("java")


def recreated(java, topic):
    try:
        return java.ask("create_topic", topic=topic, partitions=1)
    except Failed:
        return None


def gone(connection, name):
    assert connection.call(DeleteTopicsRequest[5](topic_names=[name], timeout_ms=10_000)).responses[0].error_code == 0


def test_a_topic_that_goes_under_a_session_by_ids(connection, other, java, name):
    made = name()
    first = java.ask("create_topic", topic=made, partitions=1)
    topic_id = wire.metadata(other, [made], version=12).topics[0].topic_id
    began = connection.call(request([(topic_id, 0, 0)], NEW, BY_ID))
    assert told(began) == [(0, 0, False)]
    epoch = iter(range(1, 10))
    next_one = lambda asked=(), **more: told(connection.call(request(asked, (began.session_id, next(epoch)), BY_ID, **more)))
    deletion = threading.Timer(0.5, gone, (other, made))
    deletion.start()
    assert next_one(max_wait_ms=10_000) == [(0, UNKNOWN_TOPIC, False)]
    deletion.join()
    wait(lambda: wire.metadata(other, [made]).topics[0].error_code == UNKNOWN_TOPIC, 10, "the topic is gone")
    wait(lambda: connection.call(request([(topic_id, 0, 0)], NONE, BY_ID)).responses[0].partitions[0].error_code == UNKNOWN_ID, 10, "its id, too")
    assert next_one() == next_one([(topic_id, 0, 0)]) == [(0, UNKNOWN_TOPIC, False)]
    again = wait(lambda: recreated(java, made), 10, "the topic is made again")
    assert again["id"] != first["id"]
    wait(lambda: wire.all_served(other, made, 1), 10, "it is served")
    assert next_one() == next_one([(topic_id, 0, 0)]) == [(0, INCONSISTENT_ID, False)]
    for session in (NONE, NEW):
        assert told(connection.call(request([(topic_id, 0, 0)], session, BY_ID))) == [(0, UNKNOWN_ID, False)]


@pytest.mark.parametrize("version, wrong", [(BY_NAME, BY_ID), (BY_ID, BY_NAME)])
def test_a_session_keeps_to_names_or_to_ids(version, wrong, connection, topic):
    made = topic()
    called = made if version == BY_NAME else wire.metadata(connection, [made], version=12).topics[0].topic_id
    began = connection.call(request([(called, 0, 0)], NEW, version))
    refused = connection.call(request([], (began.session_id, 1), wrong))
    assert (refused.error_code, refused.responses) == (SESSION_OF_OTHERS, [])
    assert told(connection.call(request([], (began.session_id, 1), version))) == []


@pytest.mark.parametrize("session", [NONE, NEW])
def test_a_fetch_that_waited_tells_the_start_of_now(session, connection, other, topic):
    made = topic()
    wire.produce(connection, made, wire.batch([b"x"] * 3))
    connection.send(request([(made, 0, 3)], session, max_wait_ms=1500))
    time.sleep(0.4)
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    asked = [kind(name=made, partitions=[kind.DeleteRecordsPartition(partition_index=0, offset=2)])]
    assert other.call(DeleteRecordsRequest[1](topics=asked, timeout_ms=10_000)).topics[0].partitions[0].low_watermark == 2
    found = connection.answer().responses[0].partitions[0]
    assert (found.error_code, found.high_watermark, found.log_start_offset, bool(found.records)) == (0, 3, 2, False)


def test_partitions_that_are_not_there_have_empty_lists(connection, topic):
    made = topic()
    for place in ((made, 9, 0), ("nobody.has.made.it", 0, 0)):
        found = connection.call(request([place])).responses[0].partitions[0]
        assert (found.error_code, found.aborted_transactions) == (UNKNOWN_TOPIC, [])
