"""What clients were told and what they read, and the checks of both: nothing acknowledged is lost, changed or reordered.

A history holds sends (with the place that was acknowledged, if any), what readers polled, and a last
reading of everything when the broker is well again. The checks give all that is wrong, as sentences."""

from collections import defaultdict
from typing import NamedTuple


class Send(NamedTuple):
    producer: str
    number: int
    """In the order of the producer."""
    value: str
    partition: int
    offset: int | None
    """None: nobody knows whether it was stored."""
    transaction: str | None = None


class Reading(NamedTuple):
    reader: str
    partition: int
    offset: int
    value: str


class History:
    def __init__(self, sends, readings, last, outcomes=None):
        """`readings` in the order of each reader; `last` as a reader of read_committed finds it in the end;
        `outcomes`: of transactions by name, `committed`, `aborted` or `unknown`."""
        self.sends, self.readings, self.last, self.outcomes = sends, readings, last, outcomes or {}
        self.final = {(it.partition, it.offset): it.value for it in last}

    def acknowledged(self):
        """Sends that must be in the log: acknowledged, and not in a transaction that may be gone."""
        return [it for it in self.sends if it.offset is not None and (it.transaction is None or self.outcomes[it.transaction] == "committed")]

    def offences(self):
        found = []
        for check in (self.lost, self.inconsistent, self.duplicates, self.aborted_reads, self.torn, self.polls_skip, self.sends_reordered, self.unseen):
            found += [f"{check.__name__}: {it}" for it in check()]
        return found

    def lost(self):
        for it in self.acknowledged():
            if (it.partition, it.offset) not in self.final:
                yield f"{it.value} was acknowledged at {it.partition}/{it.offset} and is not there"

    def inconsistent(self):
        said = {}
        everything = [(it.partition, it.offset, it.value, it.reader) for it in [*self.readings, *self.last]]
        everything += [(it.partition, it.offset, it.value, f"the answer to {it.producer}") for it in self.sends if it.offset is not None]
        for partition, offset, value, who in everything:
            before, by = said.setdefault((partition, offset), (value, who))
            if before != value:
                yield f"{partition}/{offset} is {before} to {by} and {value} to {who}"

    def duplicates(self):
        places = defaultdict(set)
        for it in self.last:
            places[it.value].add((it.partition, it.offset))
        return [f"{value} is stored {len(found)} times: {sorted(found)}" for value, found in places.items() if len(found) > 1]

    def aborted_reads(self):
        aborted = {it.value for it in self.sends if it.transaction and self.outcomes[it.transaction] == "aborted"}
        return [f"{it.value} of an aborted transaction was read by {it.reader}" for it in [*self.readings, *self.last] if it.value in aborted]

    def torn(self):
        present, parts = {it.value for it in self.last}, defaultdict(list)
        for it in self.sends:
            if it.transaction:
                parts[it.transaction].append(it.value in present)
        for name, found in parts.items():
            expected = {"committed": {len(found)}, "aborted": {0}, "unknown": {0, len(found)}}[self.outcomes[name]]
            if sum(found) not in expected:
                yield f"{sum(found)} of {len(found)} records of {name} ({self.outcomes[name]}) are there"

    def polls_skip(self):
        """Within a reader's readings of a partition offsets only go up, and leave out nothing that is there."""
        last, order = {}, defaultdict(list)
        for partition, offset in sorted(self.final):
            order[partition].append(offset)
        position = {partition: {offset: i for i, offset in enumerate(offsets)} for partition, offsets in order.items()}
        for it in self.readings:
            if (it.partition, it.offset) not in self.final:
                yield f"{it.reader} read {it.value} at {it.partition}/{it.offset}, which is not there"
                continue
            now, key = position[it.partition][it.offset], (it.reader, it.partition)
            if now != last.get(key, -1) + 1:
                yield f"{it.reader} read {it.partition}/{it.offset} after {order[it.partition][last[key]] if key in last else 'nothing'}"
            last[key] = now

    def sends_reordered(self):
        places = {it.value: it.offset for it in self.last}
        last = {}
        for it in sorted(self.sends, key=lambda it: (it.producer, it.number)):
            if it.value in places:
                key = (it.producer, it.partition)
                if places[it.value] < last.get(key, -1):
                    yield f"{it.value} of {it.producer} is before one that was sent earlier"
                last[key] = places[it.value]

    def unseen(self):
        """Readers that were told to read to the end have read everything."""
        for reader in {it.reader for it in self.readings}:
            read = {(it.partition, it.offset) for it in self.readings if it.reader == reader}
            missing = sorted(set(self.final) - read)
            if missing:
                yield f"{reader} never saw {len(missing)} records, the first at {missing[0]}"
