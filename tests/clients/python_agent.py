"""Runs one of the Python clients as an agent: python_agent.py librdkafka|kafka-python. See agents.py."""

import faulthandler
import json
import logging
import signal
import sys
import time


def data(text):
    return None if text is None else text.encode("latin-1")


def text(bytes_):
    return None if bytes_ is None else bytes(bytes_).decode("latin-1")


class Librdkafka:
    """confluent-kafka, which is librdkafka."""

    def __init__(self):
        self.clients, self.held, self.next = {}, {}, {}

    @staticmethod
    def failure(error):
        import confluent_kafka

        if isinstance(error, confluent_kafka.KafkaException):
            error = error.args[0]
        if isinstance(error, confluent_kafka.KafkaError):
            return {"error": error.name(), "code": error.code(), "message": error.str()}
        return {"error": type(error).__name__, "code": -1, "message": str(error)}

    def producer(self, ask):
        from confluent_kafka import Producer

        names = {"acks": "acks", "codec": "compression.type", "idempotent": "enable.idempotence", "transactional_id": "transactional.id",
                 "transaction_timeout_ms": "transaction.timeout.ms", "linger_ms": "linger.ms", "delivery_timeout_ms": "delivery.timeout.ms", "request_timeout_ms": "request.timeout.ms"}
        config = {"bootstrap.servers": ask["bootstrap"], "message.max.bytes": 20_000_000, "broker.address.family": "v4",
                  **{names[it]: ask[it] for it in names if it in ask}, **ask.get("librdkafka", {})}
        self.clients[ask["id"]] = Producer(config)

    def init(self, ask):
        self.clients[ask["id"]].init_transactions(30)

    def begin(self, ask):
        self.clients[ask["id"]].begin_transaction()

    def commit_txn(self, ask):
        self.clients[ask["id"]].commit_transaction(30)

    def abort_txn(self, ask):
        self.clients[ask["id"]].abort_transaction(30)

    def send(self, ask):
        producer, found = self.clients[ask["id"]], [None] * len(ask["records"])

        def delivered(i):
            def report(error, message):
                found[i] = self.failure(error) if error else [message.partition(), -1 if message.offset() is None else message.offset(), message.timestamp()[1]]
            return report

        for i, it in enumerate(ask["records"]):
            more = {} if it.get("timestamp") is None else {"timestamp": it["timestamp"]}
            headers = [(name, data(value)) for name, value in it.get("headers", [])]
            try:
                producer.produce(ask["topic"], data(it["value"]), data(it["key"]), it["partition"], delivered(i), headers=headers, **more)
            except Exception as error:
                found[i] = self.failure(error)
            if i % 1000 == 999:
                producer.poll(0)
        if not ask.get("wait", True):
            return None
        left = producer.flush(70)
        assert not left, f"{left} records neither delivered nor failed"
        return found

    def consumer(self, ask):
        from confluent_kafka import Consumer, TopicPartition, OFFSET_BEGINNING, OFFSET_END

        config = {"bootstrap.servers": ask["bootstrap"], "group.id": ask.get("group", "none"), "auto.offset.reset": "earliest",
                  "enable.auto.commit": False, "isolation.level": ask.get("isolation", "read_uncommitted"), "heartbeat.interval.ms": 500,
                  "topic.metadata.refresh.interval.ms": 1000, "max.partition.fetch.bytes": 20_000_000, "fetch.message.max.bytes": 20_000_000,
                  "partition.assignment.strategy": "cooperative-sticky" if ask.get("strategy") == "cooperative" else "range",
                  "broker.address.family": "v4"}
        if "instance" in ask:
            config["group.instance.id"] = ask["instance"]
        if "session_ms" in ask:
            config["session.timeout.ms"] = ask["session_ms"]
        if "fetch_wait_ms" in ask:
            config["fetch.wait.max.ms"] = ask["fetch_wait_ms"]
        self.clients[ask["id"]] = client = Consumer({**config, **ask.get("librdkafka", {})})
        self.held[ask["id"]] = held = set()
        self.next[ask["id"]] = {}
        if "topics" in ask:
            def given(_, partitions):
                held.update((it.topic, it.partition) for it in partitions)

            def taken(_, partitions):
                held.difference_update((it.topic, it.partition) for it in partitions)

            client.subscribe(ask["topics"], on_assign=given, on_revoke=taken, on_lost=taken)
        else:
            start = OFFSET_END if ask.get("from") == "latest" else OFFSET_BEGINNING
            client.assign([TopicPartition(topic, number, start) for topic, number in ask["assign"]])
            if ask.get("from") == "latest":
                for topic, number in ask["assign"]:
                    client.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
                client.assign([TopicPartition(topic, number, client.get_watermark_offsets(TopicPartition(topic, number), cached=False)[1]) for topic, number in ask["assign"]])

    def poll(self, ask):
        from confluent_kafka import KafkaError, KafkaException

        client, found, end = self.clients[ask["id"]], [], time.monotonic() + ask["ms"] / 1000
        while len(found) < ask["count"]:
            left = end - time.monotonic()
            message = client.poll(max(0, left))
            if message is None:
                if left <= 0:
                    break
                continue
            if message.error():
                retried = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError.UNKNOWN_TOPIC_OR_PART)
                if message.error().code() in retried:
                    continue
                raise KafkaException(message.error())
            self.next[ask["id"]][message.topic(), message.partition()] = message.offset() + 1
            headers = [[name, text(value)] for name, value in message.headers() or []]
            found.append([message.topic(), message.partition(), message.offset(), message.timestamp()[1], text(message.key()), text(message.value()), headers])
        return found

    def assignment(self, ask):
        return sorted(self.held[ask["id"]])

    def commit(self, ask):
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self.next[ask["id"]].items()]
        if not ask.get("wait", True):
            self.clients[ask["id"]].commit(offsets=offsets, asynchronous=True)
            return
        for it in self.clients[ask["id"]].commit(offsets=offsets, asynchronous=False):
            if it.error:
                raise KafkaException(it.error)

    def committed(self, ask):
        from confluent_kafka import KafkaException, TopicPartition

        found = self.clients[ask["id"]].committed([TopicPartition(topic, number) for topic, number in ask["partitions"]], timeout=15)
        for it in found:
            if it.error:
                raise KafkaException(it.error)
        return [it.offset if it.offset >= 0 else -1 for it in found]

    def close_producer(self, ask):
        self.clients.pop(ask["id"]).flush(10)

    def close_consumer(self, ask):
        self.clients.pop(ask["id"]).close()

    def transform(self, ask):
        from confluent_kafka import TopicPartition

        self.consumer({**ask, "id": "in", "topics": [ask["source"]], "isolation": "read_committed"})
        self.producer({**ask, "id": "out"})
        consumer, producer = self.clients["in"], self.clients["out"]
        producer.init_transactions(30)
        done = transactions = 0
        end = time.monotonic() + 60
        while done < ask["count"] and time.monotonic() < end:
            records = [it for it in consumer.consume(10, 0.5) if not it.error()]
            if not records:
                continue
            producer.begin_transaction()
            for it in records:
                producer.produce(ask["target"], it.value(), it.key(), it.partition())
            first, after = {}, {}
            for it in records:
                first.setdefault((it.topic(), it.partition()), it.offset())
                after[it.topic(), it.partition()] = it.offset() + 1
            offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in after.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            if transactions in ask["abort"]:
                producer.abort_transaction(30)
                for (topic, number), offset in first.items():
                    consumer.seek(TopicPartition(topic, number, offset))
            else:
                producer.commit_transaction(30)
                done += len(records)
            transactions += 1
        consumer.close()
        return [done, transactions]

    def versions(self, _):
        import confluent_kafka

        return {"confluent-kafka": confluent_kafka.version(), "librdkafka": confluent_kafka.libversion()[0]}


class KafkaPython:
    """kafka-python, which shares no code with the others."""

    def __init__(self):
        self.clients, self.held = {}, {}

    @staticmethod
    def failure(error):
        code = getattr(error, "errno", None)
        return {"error": type(error).__name__, "code": code if isinstance(code, int) else -1, "message": str(error)}

    def producer(self, ask):
        from kafka import KafkaProducer

        names = {"codec": "compression_type", "transactional_id": "transactional_id", "transaction_timeout_ms": "transaction_timeout_ms", "linger_ms": "linger_ms",
                 "delivery_timeout_ms": "delivery_timeout_ms", "request_timeout_ms": "request_timeout_ms"}
        config = {names[it]: ask[it] for it in names if it in ask}
        if config.get("compression_type") == "none":
            del config["compression_type"]
        acks = {"0": 0, "1": 1, "all": "all"}[ask.get("acks", "all")]
        self.clients[ask["id"]] = KafkaProducer(
            bootstrap_servers=ask["bootstrap"], acks=acks, enable_idempotence=ask.get("idempotent", acks == "all"), max_request_size=20_000_000, **config)

    def init(self, ask):
        self.clients[ask["id"]].init_transactions()

    def begin(self, ask):
        self.clients[ask["id"]].begin_transaction()

    def commit_txn(self, ask):
        self.clients[ask["id"]].commit_transaction()

    def abort_txn(self, ask):
        self.clients[ask["id"]].abort_transaction()

    def send(self, ask):
        producer, sent, found = self.clients[ask["id"]], [], []
        for it in ask["records"]:
            headers = [(name, data(value)) for name, value in it.get("headers", [])]
            try:
                sent.append(producer.send(ask["topic"], data(it["value"]), data(it["key"]), headers, it["partition"], it.get("timestamp")))
            except Exception as error:
                sent.append(error)
        if not ask.get("wait", True):
            return None
        producer.flush(60)
        for it in sent:
            try:
                if isinstance(it, Exception):
                    raise it
                stored = it.get(60)
                found.append([stored.partition, -1 if stored.offset is None else stored.offset, stored.timestamp])
            except Exception as error:
                found.append(self.failure(error))
        return found

    def consumer(self, ask):
        from kafka import KafkaConsumer, TopicPartition
        from kafka.consumer.subscription_state import ConsumerRebalanceListener
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        config = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": ask.get("isolation", "read_uncommitted"),
                  "metadata_max_age_ms": 1000, "max_partition_fetch_bytes": 20_000_000}
        if "group" in ask:
            config |= {"group_id": ask["group"], "heartbeat_interval_ms": 500, "session_timeout_ms": ask.get("session_ms", 45000)}
        if "instance" in ask:
            config["group_instance_id"] = ask["instance"]
        if "fetch_wait_ms" in ask:
            config["fetch_max_wait_ms"] = ask["fetch_wait_ms"]
        if ask.get("strategy") == "cooperative":
            from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

            config["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        else:
            config["partition_assignment_strategy"] = [RangePartitionAssignor]
        self.clients[ask["id"]] = client = KafkaConsumer(bootstrap_servers=ask["bootstrap"], **config)
        if "topics" in ask:
            client.subscribe(ask["topics"])
        else:
            assigned = [TopicPartition(topic, number) for topic, number in ask["assign"]]
            client.assign(assigned)
            (client.seek_to_end if ask.get("from") == "latest" else client.seek_to_beginning)(*assigned)
            for it in assigned:
                client.position(it)

    def poll(self, ask):
        client, found, end = self.clients[ask["id"]], [], time.monotonic() + ask["ms"] / 1000
        while True:
            left = max(0, end - time.monotonic())
            for records in client.poll(int(left * 1000), max_records=5000).values():
                for it in records:
                    headers = [[name, text(value)] for name, value in it.headers]
                    found.append([it.topic, it.partition, it.offset, it.timestamp, text(it.key), text(it.value), headers])
            if len(found) >= ask["count"] or not left:
                return found

    def assignment(self, ask):
        return sorted((it.topic, it.partition) for it in self.clients[ask["id"]].assignment())

    def commit(self, ask):
        self.clients[ask["id"]].commit(timeout_ms=15000)

    def committed(self, ask):
        from kafka import TopicPartition

        found = [self.clients[ask["id"]].committed(TopicPartition(topic, number), timeout_ms=15000) for topic, number in ask["partitions"]]
        return [-1 if it is None else it for it in found]

    def close_producer(self, ask):
        self.clients.pop(ask["id"]).close(10)

    def close_consumer(self, ask):
        self.clients.pop(ask["id"]).close(autocommit=False, timeout_ms=5000)

    def transform(self, ask):
        from kafka import OffsetAndMetadata

        self.consumer({**ask, "id": "in", "topics": [ask["source"]], "isolation": "read_committed"})
        self.producer({**ask, "id": "out"})
        consumer, producer = self.clients["in"], self.clients["out"]
        producer.init_transactions()
        done = transactions = 0
        end = time.monotonic() + 60
        while done < ask["count"] and time.monotonic() < end:
            polled = consumer.poll(500, max_records=10)
            if not polled:
                continue
            producer.begin_transaction()
            offsets = {}
            for partition, records in polled.items():
                for it in records:
                    producer.send(ask["target"], it.value, it.key, partition=it.partition)
                offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if transactions in ask["abort"]:
                producer.abort_transaction()
                for partition, records in polled.items():
                    consumer.seek(partition, records[0].offset)
            else:
                producer.commit_transaction()
                done += sum(map(len, polled.values()))
            transactions += 1
        consumer.close(autocommit=False)
        return [done, transactions]

    def versions(self, _):
        import kafka

        return {"kafka-python": kafka.__version__}


def main():
    # What the client says of groups, and where its threads are when a test asks: see Agent.where.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kafka.coordinator").setLevel(logging.INFO)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    agent = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}[sys.argv[1]]()
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer = {"ok": getattr(agent, ask["op"])(ask)}
        except Exception as error:
            answer = agent.failure(error)
        print(json.dumps(answer), flush=True)


main()
