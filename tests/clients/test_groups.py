"""Consumer groups: joining and leaving, static members, cooperative rebalances, offsets, and members that were away too long."""

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import agents
from agents import CLIENTS, Failed, Record, checked, record
from waiting import wait

pytestmark = pytest.mark.groups

# The least that Kafka allows unless it is told otherwise.
SESSION_MS = 6000
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCE, FENCED_INSTANCE = 22, 25, 27, 82
NON_EMPTY, GROUP_NOT_FOUND, SUBSCRIBED = 68, 69, 86
# What a member is told that was thrown out while it was away. librdkafka knows by itself; a client may
# also have noticed and say so in its own words.
FENCED = (ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCE, FENCED_INSTANCE, -1, -138, -144)


def settle(consumers, partitions, seconds=30):
    """Polls all until every partition belongs to exactly one of them, and each has its share; gives what was read."""
    found, whole = [], sorted(partitions)

    def settled():
        found.extend(poll_all(consumers, 1))
        held = [it.assignment() for it in consumers]
        least = len(whole) // len(consumers)
        return sorted(sum(held, [])) == whole and all(len(it) >= least for it in held)

    wait(settled, seconds, f"{len(consumers)} members share {len(whole)} partitions")
    return found


def poll_all(consumers, count):
    """Polls all at the same time: one that rejoins waits for the others, and kafka-python forgets a rejoin that a poll
    does not see to its end, and asks for another."""
    for it in consumers:
        it.agent.send("poll", id=it.id, count=count, ms=600 if it.agent.client == "kafka-python" else 100)
    answers = [it.agent.raw_answer() for it in consumers]
    return [Record.of(it) for answer in answers for it in checked(answer)]


def drain(consumers, count, seconds=30):
    """Polls all until together they have read that many records."""
    found, end = [], time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records"
        found += poll_all(consumers, count)
    return found


def places(records):
    return sorted((it.partition, it.offset) for it in records)


@pytest.fixture
def fill(agent, open_clients):
    """fill(topic, partitions, count, first): records `first`.. in turn over the partitions."""

    def write(topic, partitions, count, first=0):
        producer = open_clients.producer(agent("librdkafka"))
        producer.must_send(topic, [record(f"{i}", partition=i % partitions) for i in range(first, first + count)])

    return write


def test_a_group_goes_on_where_it_stopped(client, agent, open_clients, topic, fill, name):
    source, group = topic(4), name("g")
    fill(source, 4, 100)
    first = open_clients.consumer(agent(client), topics=[source], group=group)
    assert places(first.read(100)) == [(p, o) for p in range(4) for o in range(25)]
    assert first.committed(*[(source, i) for i in range(4)]) == [-1] * 4
    first.commit()
    assert first.committed(*[(source, i) for i in range(4)]) == [25] * 4
    open_clients.close(first)
    fill(source, 4, 20, 100)
    second = open_clients.consumer(agent(client), topics=[source], group=group)
    assert sorted(int(it.value) for it in second.read(20)) == list(range(100, 120))
    assert second.poll(1, 300) == []


def test_members_join_and_leave(client, own_agent, broker, open_clients, topic, fill, name):
    source, group, partitions = topic(6), name("g"), None
    partitions = [(source, i) for i in range(6)]
    working = own_agent(client, broker)
    one = open_clients.consumer(working, topics=[source], group=group)
    settle([one], partitions)
    two = open_clients.consumer(own_agent(client, broker), topics=[source], group=group)
    settle([one, two], partitions)
    assert [len(it.assignment()) for it in (one, two)] == [3, 3]
    fill(source, 6, 60)
    assert places(drain([one, two], 60)) == [(p, o) for p in range(6) for o in range(10)]
    one.commit(), two.commit()
    began = time.monotonic()
    open_clients.close(two)
    settle([one], partitions)
    # It said that it leaves; nobody waited for its session to end.
    assert time.monotonic() - began < 15
    fill(source, 6, 60, 60)
    assert sorted(int(it.value) for it in drain([one], 60)) == list(range(60, 120))


def test_clients_of_all_kinds_share_a_group(agent, broker, own_agent, open_clients, topic, fill, name):
    """The leader of a group assigns for all members, whatever library they are: here by ranges."""
    source, group = topic(8), name("g")
    partitions = [(source, i) for i in range(8)]
    members = [open_clients.consumer(own_agent(it, broker), topics=[source], group=group) for it in CLIENTS]
    settle(members, partitions, 60)
    assert [len(it.assignment()) for it in members] == [2, 2, 2, 2]
    described = agent("java").ask("describe_group", name=group)
    assert described["state"] == "Stable" and described["assignor"] == "range"
    assert sorted(tuple(p) for it in described["members"] for p in it[2]) == partitions
    fill(source, 8, 80)
    assert places(drain(members, 80)) == [(p, o) for p in range(8) for o in range(10)]


def test_cooperative_members_keep_what_they_have(client, own_agent, broker, open_clients, topic, fill, name):
    """Who stays goes on reading: of its partitions only those that move are taken, and no record is read twice."""
    source, group = topic(6), name("g")
    partitions = [(source, i) for i in range(6)]
    options = {"topics": [source], "group": group, "strategy": "cooperative"}
    one = open_clients.consumer(own_agent(client, broker), **options)
    settle([one], partitions)
    before = set(one.assignment())
    fill(source, 6, 60)
    found = drain([one], 60)
    one.commit()
    two = open_clients.consumer(own_agent(client, broker), **options)
    found += settle([one, two], partitions)
    assert set(one.assignment()) < before and len(one.assignment()) == 3
    fill(source, 6, 60, 60)
    found += drain([one, two], 60)
    assert places(found) == [(p, o) for p in range(6) for o in range(20)]
    kept = set(one.assignment())
    one.commit(), two.commit()
    open_clients.close(two)
    settle([one], partitions)
    assert kept < set(one.assignment())


def test_a_static_member_comes_back_to_its_partitions(client, own_agent, broker, agent, open_clients, topic, fill, name):
    """It restarts within its session: the group does not notice, and it has the same partitions (KIP-345)."""
    source, group = topic(4), name("g")
    partitions = [(source, i) for i in range(4)]
    options = {"topics": [source], "group": group, "session_ms": 30_000}
    away = own_agent(client, broker)
    members = [agents.Consumer(away, "m0", instance="i0", **options), open_clients.consumer(own_agent(client, broker), instance="i1", **options)]
    settle(members, partitions)
    before = [it.assignment() for it in members]
    described = agent("java").ask("describe_group", name=group)
    assert sorted(it[1] for it in described["members"]) == ["i0", "i1"]
    away.kill()
    again = open_clients.consumer(own_agent(client, broker), instance="i0", **options)
    settle([again, members[1]], partitions, 20)
    assert [again.assignment(), members[1].assignment()] == before
    fill(source, 4, 40)
    assert places(drain([again, members[1]], 40)) == [(p, o) for p in range(4) for o in range(10)]
    # Its end is said by an admin, not by its own silence.
    again.agent.kill()
    agent("java").ask("remove_members", name=group, instance="i0")
    settle([members[1]], partitions, 20)


def test_the_second_of_one_instance_fences_the_first(client, own_agent, broker, open_clients, topic, fill, name):
    source, group = topic(1), name("g")
    options = {"topics": [source], "group": group, "instance": "only"}
    fill(source, 1, 10)
    first = agents.Consumer(own_agent(client, broker), "first", **options)
    assert len(first.read(10)) == 10
    first.agent.pause()
    second = open_clients.consumer(own_agent(client, broker), **options)
    assert len(second.read(10)) == 10
    second.commit()
    first.agent.go_on()
    with pytest.raises(Failed) as refused:
        first.commit()
    assert refused.value.code in FENCED, f"{refused.value}"
    assert second.committed((source, 0)) == [10]
    first.agent.kill()


def test_k7_a_zombie_cannot_commit(client, own_agent, broker, open_clients, topic, fill, name):
    """K7: stopped for longer than its session, then going on; meanwhile another has its partition."""
    source, group = topic(1), name("g")
    fill(source, 1, 10)
    zombie = agents.Consumer(own_agent(client, broker), "zombie", topics=[source], group=group, session_ms=SESSION_MS)
    assert len(zombie.read(10)) == 10
    zombie.agent.pause()
    began = time.monotonic()
    heir = open_clients.consumer(own_agent(client, broker), topics=[source], group=group, session_ms=SESSION_MS)
    assert [it.offset for it in heir.read(10, SESSION_MS / 1000 + 20)] == list(range(10))
    # Not thrown out before its session was over, and not much later.
    assert SESSION_MS / 1000 - 1.5 < time.monotonic() - began < SESSION_MS / 1000 + 12
    fill(source, 1, 10, 10)
    assert len(heir.read(10)) == 10
    heir.commit()
    zombie.agent.go_on()
    try:
        zombie.commit()
        # franz-go's heartbeat may be first: then it knows that it has nothing to commit any more.
        assert client == "franz-go", "a zombie's commit was taken"
    except Failed as refused:
        assert refused.code in FENCED, f"{refused}"
    assert heir.committed((source, 0)) == [20]
    zombie.agent.kill()


def test_a_killed_member_is_thrown_out(client, own_agent, broker, open_clients, topic, name):
    source, group = topic(4), name("g")
    partitions = [(source, i) for i in range(4)]
    options = {"topics": [source], "group": group, "session_ms": SESSION_MS}
    dead = agents.Consumer(own_agent(client, broker), "dead", **options)
    one = open_clients.consumer(own_agent(client, broker), **options)
    settle([dead, one], partitions)
    dead.agent.kill()
    settle([one], partitions, SESSION_MS / 1000 + 15)


def test_groups_are_listed_described_and_deleted(agent, open_clients, topic, fill, name):
    java, source, group = agent("java"), topic(2), name("g")
    fill(source, 2, 10)
    member = open_clients.consumer(agent("librdkafka"), topics=[source], group=group)
    member.read(10)
    member.commit()
    assert java.ask("groups")[group] == "Stable"
    described = java.ask("describe_group", name=group)
    assert described["state"] == "Stable" and len(described["members"]) == 1
    assert sorted(tuple(it) for it in described["members"][0][2]) == [(source, 0), (source, 1)]
    assert java.ask("group_offsets", name=group) == {f"{source}-0": 5, f"{source}-1": 5}
    for refused in ({"op": "delete_group"}, {"op": "alter_group_offsets", "offset": 1}, {"op": "delete_group_offsets"}):
        with pytest.raises(Failed) as error:
            java.ask(name=group, topic=source, partition=0, **refused)
        assert error.value.code in (NON_EMPTY, UNKNOWN_MEMBER, SUBSCRIBED), f"{refused}: {error.value}"
    open_clients.close(member)
    wait(lambda: java.ask("describe_group", name=group)["state"] == "Empty", 20, "the group is empty")
    java.ask("alter_group_offsets", name=group, topic=source, partition=0, offset=2)
    java.ask("delete_group_offsets", name=group, topic=source, partition=1)
    assert java.ask("group_offsets", name=group) == {f"{source}-0": 2}
    java.ask("delete_group", name=group)
    assert group not in java.ask("groups")
    with pytest.raises(Failed) as error:
        java.ask("delete_group", name=group)
    assert error.value.code == GROUP_NOT_FOUND


def test_offsets_of_a_deleted_topic_are_gone(agent, open_clients, topic, fill, name):
    java, source, group = agent("java"), topic(1), name("g")
    fill(source, 1, 10)
    member = open_clients.consumer(agent("kafka-python"), topics=[source], group=group)
    member.read(10)
    member.commit()
    open_clients.close(member)
    java.ask("delete_topic", topic=source)
    wait(lambda: not java.ask("group_offsets", name=group), 15, "no offsets are left")


def test_commits_survive_a_restart(own_broker, own_agent, open_clients, name, client):
    """And so does the group: its member goes on without a word about the restart."""
    broker = own_broker()
    java, source, group = own_agent("java", broker), name(), name("g")
    java.ask("create_topic", topic=source, partitions=2)
    producer = open_clients.producer(java)
    producer.must_send(source, [record(f"{i}", partition=i % 2) for i in range(20)])
    member = open_clients.consumer(own_agent(client, broker), topics=[source], group=group)
    assert len(member.read(20)) == 20
    member.commit()
    broker.restart()
    assert java.ask("group_offsets", name=group) == {f"{source}-0": 10, f"{source}-1": 10}
    producer.must_send(source, [record(f"{i}", partition=i % 2) for i in range(20, 40)])
    found = member.read(20, 60)
    assert sorted(int(it.value) for it in found) == list(range(20, 40))
    member.commit()
    broker.kill()
    broker.start()
    assert member.committed((source, 0), (source, 1)) == [20, 20]
    open_clients.close(member)
    fresh = open_clients.consumer(own_agent(client, broker), topics=[source], group=group)
    producer.must_send(source, [record("last")])
    assert [it.value for it in fresh.read(1, 60)] == ["last"]


def test_members_that_come_and_go_all_the_time(own_agent, broker, open_clients, topic, name):
    """A storm of rebalances under load: with commits of what was read, every record is read, and the group calms down."""
    source, group = topic(6), name("g")
    partitions = [(source, i) for i in range(6)]
    producer = open_clients.producer(own_agent("java", broker))
    # One stays, others come and go; each has a process of its own, so that it is polled whatever the others wait for.
    members = [open_clients.consumer(own_agent("java", broker), topics=[source], group=group)]
    seen = {}

    def poll(ms=100):
        for it in members:
            for found in it.poll(30, ms):
                assert seen.setdefault((found.partition, found.offset), found.value) == found.value
            try:
                it.commit(wait=it.agent.client != "librdkafka")
            except Failed as error:
                assert error.code in FENCED, f"{error}"

    for turn in range(12):
        producer.must_send(source, [record(f"{turn * 30 + i}", partition=i % 6) for i in range(30)])
        members.append(open_clients.consumer(own_agent(("librdkafka", "franz-go")[turn % 2], broker), topics=[source], group=group))
        poll()
        if len(members) > 3:
            leaving = members.pop(1 + turn % 2)
            open_clients.forget(leaving)
            leaving.agent.send("close_consumer", id=leaving.id)
            wait(lambda: leaving.agent.has_answer() or poll(), 20, "it leaves")
            leaving.agent.answer()
    seen.update({(it.partition, it.offset): it.value for it in settle(members, partitions, 30)})
    wait(lambda: poll() or len(seen) == 360, 30, "every record is read")


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_static_member_that_comes_back_for_other_topics_gets_them(kind, broker, name, strategy):
    """It restarts within its session and says in its JoinGroup that it wants other topics: the leader has to assign anew.
    A restart that changes nothing keeps the generation. Apache Kafka 4 keeps the old assignment (KAFKA-12759)."""
    if kind == "kafka":
        pytest.skip("Apache Kafka keeps the old assignment")
    admin = AdminClient({"bootstrap.servers": broker.address})
    orders, refunds, group = name("orders"), name("refunds"), name("g")
    for made in admin.create_topics([NewTopic(orders, 2, 1), NewTopic(refunds, 2, 1)]).values():
        made.result(10)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
    for source in (orders, refunds):
        for i in range(10):
            producer.produce(source, f"{i}".encode(), partition=i % 2)
    producer.flush(10)
    seen, members = set(), {}

    def begin(instance, topics):
        members[instance] = confluent_kafka.Consumer({
            "bootstrap.servers": broker.address, "group.id": group, "group.instance.id": instance, "session.timeout.ms": 45000,
            "auto.offset.reset": "earliest", "partition.assignment.strategy": strategy,
        })
        members[instance].subscribe(topics)

    def held():
        return {it: sorted((place.topic, place.partition) for place in members[it].assignment()) for it in members}

    def settled(topics):
        for it in members.values():
            message = it.poll(0.1)
            if message is not None and not message.error():
                seen.add((message.topic(), message.partition(), message.offset()))
        return sorted(sum(held().values(), [])) == sorted((source, i) for source in topics for i in range(2))

    try:
        begin("a", [orders]), begin("b", [orders])
        wait(lambda: settled([orders]), 30, "both have a partition")
        for topics, all_of_them in (([orders, refunds], [orders, refunds]), ([refunds], [orders, refunds])):
            members.pop("a").close()
            begin("a", topics)
            wait(lambda: settled(all_of_them), 30, f"somebody has each partition of {all_of_them}")
            assert {source for source, _ in held()["a"]} <= set(topics)
        wait(lambda: settled([orders, refunds]) and len(seen) == 20, 30, "all records are read")
        # The same again: nobody rebalances.
        before = held()
        members.pop("a").close()
        begin("a", [refunds])
        wait(lambda: settled([orders, refunds]), 30, "it has its place again")
        assert held() == before
    finally:
        for it in members.values():
            it.close()
