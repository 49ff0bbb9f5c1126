"""A producer that goes on over HTTP, whatever becomes of its node, and notes what was acknowledged."""

import http.client
import json
import random
import threading

from jobs import BEGIN_MS

STREAMLETS = {"one": 1, "three": 3}
# The times of all records but the last are within this.
TIMES_MS = 3_600_000
# How a request ends whose node died.
DEAD = (OSError, http.client.HTTPException)


class Producer(threading.Thread):
    """`sent` has each line by its number `n`; `acknowledged` the line of each place that an answer named."""

    def __init__(self, seed, node):
        super().__init__(daemon=True)
        self.chance, self.node = random.Random(seed), node
        self.alive, self.over, self.failure = threading.Event(), threading.Event(), None
        self.sent, self.acknowledged, self.bad = {}, {}, set()
        self.ids = 0

    def run(self):
        try:
            while not self.over.is_set():
                # The node is started again by others.
                if self.alive.wait(0.1):
                    self.some()
                    self.over.wait(self.chance.uniform(0, 0.02))
        except Exception as error:
            self.failure = error

    def stop(self):
        self.over.set()
        self.join()
        if self.failure:
            raise self.failure

    def record(self, **more):
        """A record with a number of its own; its id may be that of one before."""
        again = self.ids and self.chance.random() < 0.3
        if not again:
            self.ids += 1
        record = {
            "n": len(self.sent),
            "id": self.chance.randint(max(0, self.ids - 200), self.ids - 1) if again else self.ids - 1,
            "k": f"k{min(self.chance.randint(0, 40), self.chance.randint(0, 40))}",
            "g": self.chance.randint(0, 3),
            "v": self.chance.randint(-100, 1000),
            "ts": BEGIN_MS + self.chance.randrange(TIMES_MS),
            **more,
        }
        self.sent[record["n"]] = record
        return record

    def some(self):
        stream = self.chance.choice(list(STREAMLETS))
        if self.chance.random() < 0.1:
            bad = f'{{"bad": {len(self.bad)}'
            self.bad.add(bad)
            self.append(stream, [bad], "format=text")
            return
        records = [self.record() for _ in range(self.chance.choice([1, 5, 40, 200]))]
        where = "key=k" if self.chance.random() < 0.5 else f"streamlet={self.chance.randrange(STREAMLETS[stream])}"
        self.append(stream, records, where)

    def append(self, stream, values, where):
        """Sends values; nothing is known of them if the node dies before it answers."""
        lines = [it if isinstance(it, str) else json.dumps(it) for it in values]
        try:
            answer = self.node.post(f"/streams/{stream}/records?{where}", "\n".join(lines))
        except DEAD:
            return
        assert answer.status == 200, (answer.status, answer.body)
        said = answer.json()
        assert said["records"] == len(values), said
        # Of records with keys each streamlet has those of its keys, in their order.
        left = {part["streamlet"]: [] for part in said["appended"]}
        for value in values:
            left[self.streamlet(stream, value, where, said["appended"])].append(value)
        for part in said["appended"]:
            its = left[part["streamlet"]]
            assert len(its) == part["last_offset"] - part["first_offset"] + 1, said
            for i, value in enumerate(its):
                self.acknowledged[stream, part["streamlet"], part["first_offset"] + i] = value

    def streamlet(self, stream, value, where, appended):
        """Where a value went: all that one request sends go together, if it sends them without keys."""
        if where != "key=k":
            assert len(appended) == 1, appended
            return appended[0]["streamlet"]
        return murmur2(value["k"].encode()) % STREAMLETS[stream]

    def close(self, stream, ts):
        """A last record for each streamlet, at a time behind all others."""
        for streamlet in range(STREAMLETS[stream]):
            self.append(stream, [self.record(ts=ts)], f"streamlet={streamlet}")


def murmur2(key):
    """The hash by which Kafka's Java client chooses a partition, made positive."""
    mask, m = 0xFFFF_FFFF, 0x5BD1_E995
    hashed = 0x9747_B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        hashed = (hashed * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * m & mask
    hashed = (hashed ^ hashed >> 13) * m & mask
    return (hashed ^ hashed >> 15) & 0x7FFF_FFFF
