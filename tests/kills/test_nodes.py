"""A node that is killed again and again: what it acknowledged is there, and each row of its jobs once."""

import json
import random
import threading

from jobs import Job
from live import END_MS, LIVE
from node import Node
from producer import DEAD, STREAMLETS, Producer
from runs import Run, end_or, same
from waiting import wait

# Enough for a debug build on a machine that is busy.
DONE_SECONDS = 300
LIFE_SECONDS = (0.02, 1.2)
START_SECONDS = 0.3


def test_nothing_is_lost_or_doubled(seed, kept, done, kills_min):
    with kept() as folder:
        session = Session(seed, folder, done)
        try:
            session.begin()
            while session.kills < kills_min:
                session.life()
            session.end()
        finally:
            session.close()


class Facts:
    """What is in the streams that the producer wrote to."""

    def __init__(self, node, producer):
        self.good, self.bad, self.places = [], [], {}
        for stream in STREAMLETS:
            for it in node.records(stream):
                place = (stream, it["streamlet"], it["offset"])
                self.places[place] = it["value"]
                (self.bad if isinstance(it["value"], str) else self.good).append((*place, it["value"]))
        self._check(producer)

    def _check(self, producer):
        lost = [(place, value) for place, value in producer.acknowledged.items() if self.places.get(place) != value]
        assert not lost, f"{len(lost)} of {len(producer.acknowledged)} acknowledged are not where that was: {lost[:3]}"
        numbers = [value["n"] for *_, value in self.good]
        assert len(numbers) == len(set(numbers)), "a record is there twice"
        assert all(producer.sent[value["n"]] == value for *_, value in self.good), "a record that nobody sent"
        texts = [text for *_, text in self.bad]
        assert len(texts) == len(set(texts)) and set(texts) <= producer.bad, "bad records that nobody sent, or twice"


class Session:
    """A node, its jobs, and a producer."""

    def __init__(self, seed, folder, done):
        self.chance, self.folder, self.done, self.kills = random.Random(seed), folder, done, 0
        # A kill costs nothing whatever an append waits for, as the operating system lives on.
        fsync, segments = self.chance.choice(["always", "os", "10ms"]), self.chance.choice(["64KiB", "1MiB", "16MiB"])
        self.node = Node(folder / "node", "--fsync", fsync, "--segment-bytes", segments, "--journal", self.chance.choice(["write", "map"]))
        self.producer = Producer(seed, self.node)
        self.live = {it.name: it(self.chance, folder / it.name) for it in LIVE}
        # A job over files, which ends, and is submitted anew each time.
        self.batch = Job(seed, name="batch", checkpoints=True)
        self.batch.write(folder / "inputs")
        self.undisturbed, self.batches = Run(self.batch, folder / "undisturbed"), Run(self.batch, folder / "batch")
        self.names = [*self.live, "batch"]

    def begin(self):
        self.undisturbed.life()
        self.start()
        for stream, streamlets in {**STREAMLETS, "copied": 3}.items():
            self.node.create(stream, f"?streamlets={streamlets}")
        for name in self.names:
            answer = self.submit(name, resume=False)
            assert answer.status == 201, answer.body
            self.done["jobs"] += 1
        self.producer.start()

    def close(self):
        self.producer.alive.clear()
        self.producer.over.set()
        self.node.kill()

    # The node's lives.

    def begin_node(self):
        # Another process may have taken the ports of the life before.
        self.node.kafka_port = self.node.http_port = 0
        self.node.begin()
        self.done["starts of nodes"] += 1

    def start(self):
        self.begin_node()
        wait(self.node.is_ready, DONE_SECONDS, "ready")
        self.producer.alive.set()

    def life(self):
        """The node is killed while it is asked for this and that, and maybe while it starts again."""
        killer = threading.Timer(self.chance.uniform(*LIFE_SECONDS), self.node.kill)
        killer.start()
        while self.node.process.poll() is None:
            try:
                self.change_a_job()
            except DEAD:
                pass
            end_or(self.node.process, self.chance.uniform(0, 0.1))
        killer.join()
        self.killed()
        while self.chance.random() < 0.3:
            self.begin_node()
            end_or(self.node.process, self.chance.uniform(0, START_SECONDS))
            self.node.kill()
            self.killed()
        self.start()

    def killed(self):
        self.producer.alive.clear()
        assert self.node.process.returncode == -9, f"it ended with {self.node.process.returncode}: {self.node.said()[-3000:]}"
        self.kills += 1
        self.done["kills"] += 1

    # The jobs.

    def submit(self, name, resume):
        job = self.batch if name == "batch" else self.live[name]
        body = {"job": job.text(), "base_dir": str(self.folder / name), "resume": resume}
        answer = self.node.post("/jobs", json.dumps(body))
        self.done["resumes"] += resume and answer.status == 201
        return answer

    def status(self, name):
        answer = self.node.get(f"/jobs/{name}")
        assert answer.status == 200, (name, answer.body)
        job = answer.json()
        assert job["status"] in ("running", "waiting", "cancelled", "finished"), job
        return job["status"]

    def change_a_job(self):
        name = self.chance.choice(self.names)
        status = self.status(name)
        if status == "running" and self.chance.random() < 0.6:
            answer = self.node.ask("PUT", f"/jobs/{name}/threads?threads={self.chance.randint(1, 4)}")
            # It may end meanwhile.
            assert answer.status in (200, 409), (name, answer.body)
            self.done["rescales"] += answer.status == 200
        elif status == "running":
            answer = self.node.ask("DELETE", f"/jobs/{name}")
            assert answer.status in (202, 409), (name, answer.body)
            self.done["cancels"] += answer.status == 202
        elif status != "waiting":
            self.go_on(name, status)

    def go_on(self, name, status):
        """Resumes a job that was cancelled; the one over files is looked at when it is over, and begins anew."""
        if status == "finished":
            assert name == "batch", f"{name} ended by itself"
            self.check_batch()
        answer = self.submit(name, resume=status == "cancelled")
        assert answer.status == 201, (name, answer.body)

    def check_batch(self):
        expected = {name: it for name, it in self.undisturbed.output().items() if name in self.batch.outputs}
        same(self.batches.folder, self.batches.output(), expected)
        self.done["jobs over files"] += 1

    def runs(self, name):
        """Whether a job goes on as it should; one that was cancelled is resumed."""
        status = self.status(name)
        if status == "cancelled":
            self.go_on(name, status)
        return status == ("finished" if name == "batch" else "running")

    # The end.

    def end(self):
        self.producer.stop()
        for name in self.names:
            wait(lambda: self.runs(name), DONE_SECONDS, f"{name} runs")
        self.check_batch()
        # Nothing is late: windows are closed when all that belongs to them was seen.
        facts = Facts(self.node, self.producer)
        self.await_rows("windows", facts, ["seen"])
        for stream in STREAMLETS:
            self.producer.close(stream, END_MS)
        facts = Facts(self.node, self.producer)
        self.done["records"] += len(facts.places)
        for name in self.live:
            self.await_rows(name, facts)
        for name in self.live:
            self.node.ask("DELETE", f"/jobs/{name}")
            wait(lambda: self.status(name) == "cancelled", DONE_SECONDS, f"{name} is cancelled")
        for name, job in self.live.items():
            agree(name, job.found(self.node), job.wanted(facts))
            left = [it.name for it in job.folder.iterdir() if it.suffix in (".partial", ".new", ".tmp")]
            assert not left, f"left behind: {left}"
        assert "panicked" not in self.node.said(), self.node.said()[-3000:]

    def await_rows(self, name, facts, outputs=None):
        """Waits until a job has written what it should, or says what is missing."""
        job = self.live[name]
        wanted = job.wanted(facts)
        outputs = outputs or list(wanted)

        def written():
            found = job.found(self.node)
            return all(found[it] == wanted[it] for it in outputs)

        try:
            wait(written, DONE_SECONDS, name)
        except TimeoutError:
            agree(name, job.found(self.node), wanted)
            raise


def agree(name, found, wanted):
    for output, rows in wanted.items():
        missing, more = rows - found[output], found[output] - rows
        assert found[output] == rows, (
            f"{name}, {output}: {sum(missing.values())} of {sum(rows.values())} are missing, such as {list(missing.items())[:3]}, "
            f"{sum(more.values())} too many, such as {list(more.items())[:3]}")
