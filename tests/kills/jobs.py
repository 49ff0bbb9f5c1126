"""Random jobs: what a seed makes of the grammar of docs/job.md, and the data that they read.

By that document each gives the same bytes whenever it is run: its sources are files, whose cycles end by
size alone, and nothing in it depends on threads or on a clock.
"""

import csv
import functools
import io
import json
import random

import pyarrow
import pyarrow.parquet

BEGIN_MS = 1_767_225_600_000
RECORD_MS = 100
TYPES = {"id": "bigint", "k": "text", "g": "bigint", "v": "bigint", "f": "double", "ts": "bigint", "tags": "text[]"}
# What a column can be used for: `ms` is a number that is not added up.
KINDS = {"id": "int", "k": "text", "g": "int", "v": "int", "f": "float", "ts": "ms", "tags": "list"}
TABLE = {"k": "text", "title": "text", "weight": "bigint"}
BAD_LINES = {
    "json": [
        '{"id": 1, "k"',
        "[1, 2]",
        '"text"',
        "}{",
        '{"id": "one", "k": "k1", "ts": 1767225600000}',
        '{"id": -1, "k": "k1", "v": 1.5, "ts": 1767225600000}',
        '{"id": -2, "k": "k1", "ts": "never"}',
        '{"id": -3, "k": "k1", "ts": 9223372036854775807}',
    ],
    "csv": ["x,y", "one,k1,1,1,1.0,1767225600000", "-1,k1,1,1,1.0,never", "-2,k1,1,1.5,1.0,1767225600000", '-3,k"1'],
}


def records(chance, count):
    """Records whose times are out of order; some come again, some far too late, some lack a value."""
    made = []
    for i in range(count):
        ts = BEGIN_MS + i * RECORD_MS + chance.randint(-4000, 4000)
        if made and chance.random() < 0.05:
            made.append({**chance.choice(made[-300:]), "ts": ts})
            continue
        if chance.random() < 0.005:
            ts -= chance.randint(60_000, 900_000)
        made.append({
            "id": i,
            # Some keys have much more than others.
            "k": f"k{min(chance.randint(0, 150), chance.randint(0, 150))}",
            "g": chance.randint(0, 6),
            "v": None if chance.random() < 0.02 else chance.randint(-50, 1000),
            "f": round(chance.uniform(-100, 100), 6),
            "ts": ts,
            "tags": [f"t{chance.randint(0, 9)}" for _ in range(chance.randint(0, 3))],
        })
    return made


def with_bad_lines(chance, kind, lines):
    for line in lines:
        if chance.random() < 0.004:
            yield chance.choice(BAD_LINES[kind])
        yield line


@functools.cache
def file_of(kind, count, number):
    """The bytes of a file of so many records. Seeds share some files, as it takes time to make one."""
    chance = random.Random(number)
    rows = records(chance, count)
    if kind == "parquet":
        text = pyarrow.string()
        types = {"bigint": pyarrow.int64(), "text": text, "double": pyarrow.float64(), "text[]": pyarrow.list_(text)}
        schema = pyarrow.schema([(name, types[it]) for name, it in TYPES.items()])
        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), out, row_group_size=(1000, 100_000)[number])
        return out.getvalue()
    if kind == "json":
        lines = [json.dumps(it) for it in rows]
    else:
        fields = [it for it in TYPES if it != "tags"]
        lines = [",".join("" if row[it] is None else str(row[it]) for it in fields) for row in rows]
    head = [",".join(fields)] if kind == "csv" else []
    return "".join(f"{it}\n" for it in [*head, *with_bad_lines(chance, kind, lines)]).encode()


def write_table(path, chance):
    """A row for most keys, and for some a later one that counts instead."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(TABLE)
        for i in range(chance.randint(50, 250)):
            rows.writerow([f"k{i % 120}", f"title {i}", i * 3])


class Job:
    """The job of a seed, as it stands in a file; `outputs` are the files that it writes."""

    def __init__(self, seed, name="kills", checkpoints=None):
        self.chance = random.Random(seed)
        # What `partition: random` draws follows from the name too.
        self.seed, self.spec = seed, {"name": name}
        self.sources, self.stages, self.sinks = {}, {}, {}
        self.columns, self.read, self.outputs = {}, set(), []
        self.inputs, self.joined = {}, set()
        self._head(checkpoints)
        for i in range(self.chance.choice([1, 1, 2, 3])):
            self._add_source(f"source_{i}")
        # The first kind goes round, so that some seeds in a row have all of them.
        self._add_stage("stage_0", first=seed)
        for i in range(1, self.chance.randint(1, 6)):
            self._add_stage(f"stage_{i}")
        self._add_sinks()
        self.spec.update(sources=self.sources, stages=self.stages, sinks=self.sinks)

    def maybe(self, share):
        return self.chance.random() < share

    # The head.

    def _head(self, checkpoints):
        draw, spec = self.chance.choice, self.spec
        spec["cycle"] = draw([{"records": 50}, {"records": 300}, {"records": 1000}, {"records": 4000}, {"bytes": "16KiB"}])
        if self.maybe(0.6):
            spec["slices"] = draw([1, 2, 5, 16, 64])
        if self.maybe(0.75) if checkpoints is None else checkpoints:
            # Few slices are saved in little time, so that a kill often comes after that.
            spec["slices"] = draw([1, 2, 5, 16])
            spec["checkpoint"] = {
                "every": draw(["2ms", "5ms", "20ms"]),
                "backend": {draw(["indexed", "indexed", "files"]): {}},
                "recovery": draw(["eager", "lazy", "prefetch"]),
            }
        if self.maybe(0.15):
            spec["buffer"] = {"bytes": draw(["1KiB", "4KiB"]), "high_watermark": "64KiB", "low_watermark": "16KiB"}
        if self.maybe(0.2):
            spec["state"] = {"share_windows": False}

    # Sources.

    def _add_source(self, name):
        kind = self.chance.choice(["json", "json", "csv", "parquet"])
        path = f"{name}.{kind}"
        kept = {it: TYPES[it] for it in TYPES if kind != "csv" or it != "tags"}
        file = {"path": path, "format": kind}
        if kind != "parquet":
            # Bad records may be among the first ones too, so the file is not asked for its types.
            file["schema"] = kept
        lateness = self.chance.choice(["0s", "1s", "5s", "10s", "1m"])
        self.sources[name] = {"file": file, "time": {"field": "ts", "lateness": lateness}}
        self.columns[name] = {it: KINDS[it] for it in kept}
        self.inputs[path] = (kind, self.chance.choice([5_000, 20_000, 60_000]), self.chance.choice([0, 1]))

    def _table(self):
        if "table" not in self.sources:
            self.sources["table"] = {"file": {"path": "table.csv", "format": "csv", "schema": TABLE}}
        return "table"

    def write(self, folder):
        """Writes the data that the job reads. Dead letters name it as the job does, so by its whole path."""
        folder.mkdir()
        for source in self.sources.values():
            source["file"]["path"] = str(folder / source["file"]["path"])
        for name, what in self.inputs.items():
            (folder / name).write_bytes(file_of(*what))
        write_table(folder / "table.csv", random.Random(self.seed))

    def text(self):
        """The job file: JSON, which is YAML too."""
        return json.dumps(self.spec, indent=1) + "\n"

    # Stages.

    def _add_stage(self, name, first=None):
        names = list(STAGES)
        kinds = self.chance.sample(names, len(names))
        if first is not None:
            kinds.insert(0, names[first % len(names)])
        for kind in kinds:
            # Mostly what was made last, so that stages stand in chains.
            made = list(self.columns)
            source = made[-1] if self.maybe(0.6) else self.chance.choice(made)
            if (found := STAGES[kind](self, name, source)) is not None:
                spec, columns = found
                if self.maybe(0.25) and kind not in ("partition", "shared windows"):
                    spec["slices"] = self.chance.choice([1, 2, 3, 7, 16])
                self.stages[name] = spec
                self.columns[name] = columns
                return
        raise AssertionError("a partition can be made of anything")

    def input(self, name):
        self.read.add(name)
        return name

    def of(self, source, *kinds):
        return [name for name, kind in self.columns[source].items() if kind in kinds]

    def keys(self, source, most=2):
        names = self.of(source, "int", "text")
        return self.chance.sample(names, min(len(names), self.chance.randint(1, most)))

    def condition(self, source):
        """A condition over some column, or nothing if there is none for it."""
        conditions = [f"{it} > {self.chance.randint(0, 300)}" for it in self.of(source, "int", "float")]
        conditions += [f"{it} % 3 <> 0" for it in self.of(source, "int")]
        conditions += [f"{it} <> 'k3'" for it in self.of(source, "text")]
        # Has no value where a number is 0, which makes a dead letter.
        conditions += [f"1000 / {it} > -500" for it in self.of(source, "int")]
        return self.chance.choice(conditions) if conditions else None

    def before(self, source):
        """What may stand before the operator of a stage."""
        condition = self.condition(source) if self.maybe(0.25) else None
        return {"where": condition} if condition else {}

    def aggregates(self, name, source):
        """Aggregates and the kinds of what they give."""
        draw = self.chance.choice
        calls = [("count(*)", "int")]
        for it in self.of(source, "int"):
            # Of a remainder, so that sums of sums stay within 64 bits.
            calls += [(f"sum({it} % 1000)", "int"), (f"count(distinct {it})", "int"), (f"approx_distinct({it})", "int")]
        for it in self.of(source, "int", "float"):
            calls += [(f"avg({it})", "float"), (f"median({it})", "float"), (f"quantile({it}, 0.9)", "float")]
            calls += [(f"stddev_samp({it})", "float"), (f"var_pop({it})", "float")]
        for it in self.of(source, "float"):
            calls += [(f"sum({it})", "float")]
        for it in self.of(source, "int", "float", "text", "ms"):
            kind = self.columns[source][it]
            calls += [(f"{function}({it})", kind) for function in ("min", "max", "first", "last")]
        calls = [calls[0]] + self.chance.sample(calls, min(len(calls), draw([1, 2, 4, 8])))
        condition = self.condition(source)
        if condition and self.maybe(0.3):
            calls.append((f"count(*) filter (where {condition})", "int"))
        named = {f"{name}_{i}": call for i, call in enumerate(calls)}
        return {it: call for it, (call, _) in named.items()}, {it: kind for it, (_, kind) in named.items()}

    def window(self, name, source, window, keys, bounds=True, late=False):
        calls, kinds = self.aggregates(name, source)
        spec = {"from": self.input(source), **self.before(source), "window": window, "aggregate": calls}
        if keys:
            spec["key"] = keys
        if late and self.maybe(0.4):
            spec["late"] = f"late_{name}"
            self.columns[spec["late"]] = dict(self.columns[source])
        columns = {it: self.columns[source][it] for it in keys}
        if bounds:
            columns.update(window_start="time", window_end="time")
        return spec, {**columns, **kinds}

    # Sinks.

    def _add_sinks(self):
        ends = [it for it in self.stages if it not in self.read]
        ends += [it for it in self.columns if it not in ends and self.maybe(0.3)]
        columnar = self.maybe(0.2)
        for source in ends:
            kind = self.chance.choice(["json", "json", "csv"])
            if columnar and source == ends[-1]:
                kind = self.chance.choice(["arrow", "parquet"])
            self._add_sink(f"{source}_rows", source, kind)
        if self.maybe(0.7):
            self._add_sink("bad", "dead_letter", self.chance.choice(["json", "json", "csv"]))

    def _add_sink(self, name, source, kind):
        self.sinks[name] = {"from": source, "file": {"path": f"{name}.{kind}", "format": kind}}
        self.outputs.append(f"{name}.{kind}")


def where(job, name, source):
    if (condition := job.condition(source)) is None:
        return None
    return {"from": job.input(source), "where": condition}, dict(job.columns[source])


def select(job, name, source):
    """One column is made anew, and one may be left out."""
    made = [(it, f"{it} + 1", "int") for it in job.of(source, "int")]
    made += [(it, f"1000 / {it}", "int") for it in job.of(source, "int")]
    made += [(it, f"case when {it} > 50 then {it} else 0.5 end", "float") for it in job.of(source, "float")]
    made += [(it, f"concat({it}, '_')", "text") for it in job.of(source, "text") if it != "k"]
    if not made:
        return None
    changed, expression, kind = job.chance.choice(made)
    columns = dict(job.columns[source])
    if len(columns) > 4 and job.maybe(0.5):
        del columns[job.chance.choice([it for it in columns if it not in (changed, "id", "k")])]
    columns[changed] = kind
    return {"from": job.input(source), "select": {it: expression if it == changed else it for it in columns}}, columns


def flat_map(job, name, source):
    if lists := job.of(source, "list"):
        expression, kind = lists[0], "text"
    elif numbers := job.of(source, "int"):
        expression, kind = f"make_array({numbers[0]}, {numbers[0]} + 1)", "int"
    else:
        return None
    spec = {"from": job.input(source), "flat_map": {"unnest": expression, "as": f"{name}_element"}}
    return spec, {**job.columns[source], f"{name}_element": kind}


def tumbling(job, name, source):
    window = {"tumbling": job.chance.choice(["2s", "10s", "1m", "7m"])}
    return job.window(name, source, window, job.keys(source) if job.maybe(0.8) else [], late=True)


def sliding(job, name, source):
    size, every = job.chance.choice([("1m", "20s"), ("30s", "30s"), ("10s", "7s")])
    window = {"sliding": {"size": size, "every": every}}
    return job.window(name, source, window, job.keys(source) if job.maybe(0.8) else [], late=True)


def shared(job, name, source):
    """Two stages with windows over the same records, which they keep once."""
    keys, numbers = job.keys(source), job.of(source, "int")
    if not keys or not numbers:
        return None
    calls = {f"{name}_0": "count(*)", f"{name}_1": f"max({numbers[0]})"}
    each = {"from": job.input(source), "key": keys, "aggregate": calls}
    columns = {it: job.columns[source][it] for it in keys}
    columns.update({"window_start": "time", "window_end": "time", **dict.fromkeys(calls, "int")})
    job.stages[f"{name}_narrow"] = {**each, "window": {"tumbling": "20s"}}
    job.columns[f"{name}_narrow"] = dict(columns)
    return {**each, "window": {"sliding": {"size": "1m", "every": "20s"}}}, columns


def session(job, name, source):
    window = {"session": job.chance.choice(["500ms", "5s", "20s"])}
    return job.window(name, source, window, job.keys(source) if job.maybe(0.8) else [])


def count(job, name, source):
    if not (keys := job.keys(source)):
        return None
    size, every = job.chance.choice([(5, 2), (1, 1), (100, 10), (1000, 50)])
    spec, columns = job.window(name, source, {"count": {"size": size, "every": every}}, keys, bounds=False)
    if "checkpoint" in job.spec and job.maybe(0.5):
        spec["ttl"] = job.chance.choice(["20ms", "100ms"])
    return spec, columns


def whole(job, name, source):
    return job.window(name, source, {"global": {}}, job.keys(source) if job.maybe(0.7) else [], bounds=False)


def top(job, name, source):
    if not (by := job.of(source, "int", "float", "ms")):
        return None
    spec = {"k": job.chance.choice([1, 3, 20]), "by": job.chance.choice(by)}
    groups = [it for it in ("window_start", "k", "g") if it in job.columns[source]]
    if groups and job.maybe(0.7):
        spec["per"] = [job.chance.choice(groups)]
    if job.maybe(0.3):
        spec["ascending"] = True
    return {"from": job.input(source), **job.before(source), "top": spec}, dict(job.columns[source])


def dedup(job, name, source):
    if not (keys := job.keys(source)):
        return None
    spec = {"on": keys}
    if job.maybe(0.6):
        spec["within"] = job.chance.choice(["1s", "10s", "5m"])
    return {"from": job.input(source), **job.before(source), "dedup": spec}, dict(job.columns[source])


def _joined(job, left, right, keys):
    columns = dict(job.columns[left])
    for it, kind in (TABLE_KINDS if right is None else job.columns[right]).items():
        if it in keys:
            continue
        while it in columns:
            it = f"right_{it}"
        columns[it] = kind
    return columns


def join_table(job, name, source):
    if "k" not in job.columns[source]:
        return None
    spec = {"left": job.input(source), "table": job._table(), "on": ["k"], "kind": job.chance.choice(["inner", "left"])}
    return {"join": spec}, _joined(job, source, None, ["k"])


def join_within(job, name, source):
    """Of two streams, once in a job: joins of joins would have too many rows."""
    others = [it for it in job.columns if "k" in job.columns[it]]
    if job.joined or "k" not in job.columns[source] or not others:
        return None
    other = job.chance.choice(others)
    both = [it for it in ("id", "g") if it in job.columns[source] and it in job.columns[other]]
    keys = ["k", *job.chance.sample(both, min(len(both), 1))]
    within = job.chance.choice(["1s", "5s"] if len(keys) > 1 else ["100ms", "500ms"])
    job.joined.add(name)
    spec = {"left": job.input(source), "right": job.input(other), "on": keys, "within": within}
    spec["kind"] = job.chance.choice(["inner", "left"])
    return {"join": spec}, _joined(job, source, other, keys)


def union(job, name, source):
    """Of two streams of the same columns: a stage before each sees to that."""
    others = [it for it in job.columns if it != source and set(job.of(it, "int", "text")) & set(job.of(source, "int", "text"))]
    if not others:
        return None
    other = job.chance.choice(others)
    common = {
        it: kind for it, kind in job.columns[source].items()
        if job.columns[other].get(it) == kind and kind in ("int", "text", "float", "ms")
    }
    parts = []
    for side, read in (("left", source), ("right", other)):
        parts.append(f"{name}_{side}")
        job.stages[parts[-1]] = {"from": job.input(read), "select": {it: it for it in common}}
        job.read.add(parts[-1])
    return {"from": parts}, common


def partition(job, name, source):
    spec = {"from": job.input(source), "partition": job.chance.choice(["random", "one", "local", "all"])}
    if spec["partition"] != "local":
        spec["slices"] = 2 if spec["partition"] == "all" else job.chance.choice([1, 2, 5])
    return spec, dict(job.columns[source])


TABLE_KINDS = {"k": "text", "title": "text", "weight": "int"}
STAGES = {
    "tumbling": tumbling,
    "join within": join_within,
    "count": count,
    "dedup": dedup,
    "session": session,
    "join table": join_table,
    "top": top,
    "sliding": sliding,
    "union": union,
    "flat_map": flat_map,
    "shared windows": shared,
    "global": whole,
    "partition": partition,
    "where": where,
    "select": select,
}
