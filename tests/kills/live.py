"""Jobs over the streams of a node, each with what a plain computation says of its rows."""

import csv
import json
from collections import Counter, defaultdict
from datetime import datetime, timezone

from jobs import BEGIN_MS
from producer import TIMES_MS

SCHEMA = {"n": "bigint", "id": "bigint", "k": "text", "g": "bigint", "v": "bigint", "ts": "bigint"}
WINDOW_MS = 60_000
# Nothing is late before a record comes that is as far ahead as this.
LATENESS = "1d"
END_MS = BEGIN_MS + 10 * 86_400_000


def head(chance, name):
    spec = {"name": name, "cycle": {"time": chance.choice(["1ms", "5ms", "10ms", "50ms"])}}
    spec["slices"] = chance.choice([1, 5, 64])
    spec["parallelism"] = chance.choice([1, 2, 3])
    if chance.random() < 0.8:
        spec["checkpoint"] = {
            "every": chance.choice(["5ms", "20ms", "100ms"]),
            "backend": {chance.choice(["indexed", "indexed", "files"]): {}},
            "recovery": chance.choice(["eager", "lazy", "prefetch"]),
        }
    return spec


def stream(name, **more):
    return {"stream": name, "format": "json", "schema": SCHEMA, "time": {"field": "ts", "lateness": LATENESS}, **more}


def both(**more):
    return {"one": stream("one", **more), "three": stream("three", **more)}


def file(source, path):
    return {"from": source, "file": {"path": path, "format": path.rpartition(".")[2]}}


def rows(path):
    """The whole rows of a file that may be growing."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()
    return list(csv.DictReader(lines)) if path.suffix == ".csv" else [json.loads(it) for it in lines]


class Live:
    """A job: its text, and `found` and `wanted`, the rows that it has written and should have, by output."""

    def __init__(self, chance, folder):
        self.folder = folder
        self.spec = {**head(chance, self.name), **self.parts(chance)}
        folder.mkdir(parents=True)

    def text(self):
        return json.dumps(self.spec, indent=1)


class Copy(Live):
    """All records with their places, in a file and in a stream; the bad ones apart."""

    name = "copy"

    def parts(self, chance):
        return {
            "sources": both(meta={"streamlet": "part", "offset": "at"}),
            "sinks": {
                "rows": file(["one", "three"], "rows.json"),
                "copied": {"from": ["three", "one"], "stream": {"name": "copied", "key": ["k"], "streamlets": 3}},
                "bad": file("dead_letter", "bad.json"),
            },
        }

    def found(self, node):
        return {
            "rows": Counter((it["n"], it["part"], it["at"]) for it in rows(self.folder / "rows.json")),
            "copied": Counter((it["key"], it["value"]["n"]) for it in node.records("copied")),
            "bad": Counter(it["record"].strip() for it in rows(self.folder / "bad.json")),
        }

    def wanted(self, facts):
        return {
            "rows": Counter((it["n"], part, at) for _, part, at, it in facts.good),
            "copied": Counter((it["k"], it["n"]) for *_, it in facts.good),
            "bad": Counter(it for *_, it in facts.bad),
        }


class Count(Live):
    """How many came of each key, after each of them: the rows of a key are in this order."""

    name = "count"

    def parts(self, chance):
        stage = {
            "from": ["one", "three"], "key": ["k"], "window": {"count": {"size": 1_000_000, "every": 1}},
            "aggregate": {"nth": "count(*)", "total": "sum(v)"},
        }
        if chance.random() < 0.5:
            stage["ttl"] = "100ms"
        return {
            "sources": both(), "stages": {"counts": stage},
            "sinks": {
                "rows": file("counts", "rows.csv"),
                "counted": {"from": "counts", "stream": {"name": "counted", "key": ["k"], "streamlets": 2}},
            },
        }

    def __init__(self, chance, folder):
        super().__init__(chance, folder)
        if "ttl" in self.spec["stages"]["counts"]:
            self.spec.setdefault("checkpoint", {"every": "20ms"})

    def found(self, node):
        lines = rows(self.folder / "rows.csv")
        written = [(it["k"], int(it["nth"])) for it in lines]
        stored = [(it["value"]["k"], it["value"]["nth"]) for it in node.records("counted")]
        return {
            "rows": Counter(written),
            "counted": Counter(stored),
            "out of order": out_of_order(written) + out_of_order(stored),
            "totals": Counter({it["k"]: int(it["total"]) for it in sorted(lines, key=lambda it: int(it["nth"]))}),
        }

    def wanted(self, facts):
        times, totals = Counter(), Counter()
        for *_, it in facts.good:
            times[it["k"]] += 1
            totals[it["k"]] += it["v"]
        nth = Counter((k, i + 1) for k, count in times.items() for i in range(count))
        return {"rows": nth, "counted": nth, "out of order": Counter(), "totals": totals}


def out_of_order(numbered):
    """What does not have the number behind that of the one of its key before."""
    last, found = Counter(), Counter()
    for key, number in numbered:
        if number != last[key] + 1:
            found[key, number] += 1
        last[key] = number
    return found


class First(Live):
    """Each id once, and the title of a table with it."""

    name = "first"

    def parts(self, chance):
        return {
            "sources": {**both(), "titles": {"file": {"path": "titles.csv", "format": "csv"}}},
            "stages": {
                "first": {"from": ["one", "three"], "select": {"id": "id", "g": "id % 7"}, "dedup": {"on": ["id"]}},
                "titled": {"join": {"left": "first", "table": "titles", "on": ["g"], "kind": "left"}},
            },
            "sinks": {"rows": file("titled", "rows.json")},
        }

    def __init__(self, chance, folder):
        super().__init__(chance, folder)
        lines = "".join(f"{g},title {g}\n" for g in range(5))
        (folder / "titles.csv").write_text(f"g,title\n{lines}", encoding="utf-8")

    def found(self, node):
        return {"rows": Counter((it["id"], it["title"]) for it in rows(self.folder / "rows.json"))}

    def wanted(self, facts):
        ids = {it["id"] for *_, it in facts.good}
        return {"rows": Counter((it, f"title {it % 7}" if it % 7 < 5 else None) for it in ids)}


class Pairs(Live):
    """Records of both streams with the same id."""

    name = "pairs"

    def parts(self, chance):
        return {
            "sources": both(),
            "stages": {
                "left": {"from": "one", "select": {"id": "id", "n": "n"}},
                "right": {"from": "three", "select": {"id": "id", "m": "n"}},
                "pairs": {"join": {"left": "left", "right": "right", "on": ["id"], "within": f"{2 * TIMES_MS}ms"}},
            },
            "sinks": {"rows": file("pairs", "rows.json")},
        }

    def found(self, node):
        return {"rows": Counter((it["n"], it["m"]) for it in rows(self.folder / "rows.json"))}

    def wanted(self, facts):
        left, right = defaultdict(list), defaultdict(list)
        for stream, _, _, it in facts.good:
            (left if stream == "one" else right)[it["id"]].append(it)
        near = 2 * TIMES_MS
        return {"rows": Counter((a["n"], b["n"]) for it in left for a in left[it] for b in right[it] if abs(a["ts"] - b["ts"]) <= near)}


class Windows(Live):
    """Windows of each group, and the best group of each window; they come out with the last records."""

    name = "windows"

    def parts(self, chance):
        calls = {"records": "count(*)", "total": "sum(v)", "last_n": "max(n)"}
        each = {"from": ["one", "three"], "key": ["g"], "aggregate": calls}
        sliding = {"size": f"{2 * WINDOW_MS}ms", "every": f"{WINDOW_MS}ms"}
        return {
            "sources": both(),
            "stages": {
                "minutes": {**each, "window": {"tumbling": f"{WINDOW_MS}ms"}, "late": "too_late"},
                "sliding": {**each, "window": {"sliding": sliding}},
                "best": {"from": "minutes", "top": {"k": 1, "by": "last_n", "per": ["window_start"]}},
            },
            "sinks": {
                "seen": file(["one", "three"], "seen.json"),
                "minutes_rows": file("minutes", "minutes.json"),
                "sliding_rows": file("sliding", "sliding.json"),
                "best_rows": file("best", "best.json"),
                "late_rows": file("too_late", "late.json"),
            },
        }

    def found(self, node):
        found = {"seen": Counter(it["n"] for it in rows(self.folder / "seen.json"))}
        for name in ("minutes", "sliding", "best"):
            lines = rows(self.folder / f"{name}.json")
            found[name] = Counter((it["window_start"], it["g"], it["records"], it["total"], it["last_n"]) for it in lines)
        found["late"] = Counter(it["n"] for it in rows(self.folder / "late.json"))
        return found

    def wanted(self, facts):
        values = [it for *_, it in facts.good]
        wanted = {"seen": Counter(it["n"] for it in values), "late": Counter()}
        minutes, sliding = defaultdict(list), defaultdict(list)
        for it in values:
            # Those that close the windows are in one that stays open.
            if it["ts"] < END_MS:
                start = it["ts"] - it["ts"] % WINDOW_MS
                minutes[start, it["g"]].append(it)
                for begin in (start - WINDOW_MS, start):
                    sliding[begin, it["g"]].append(it)
        best = {}
        for (start, g), its in minutes.items():
            last = max(it["n"] for it in its)
            if start not in best or last > best[start][0]:
                best[start] = (last, g)
        wanted["minutes"] = Counter(window(start, g, its) for (start, g), its in minutes.items())
        wanted["sliding"] = Counter(window(start, g, its) for (start, g), its in sliding.items())
        wanted["best"] = Counter(window(start, g, minutes[start, g]) for start, (_, g) in best.items())
        return wanted


def window(start, g, its):
    begin = datetime.fromtimestamp(start / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return begin, g, len(its), sum(it["v"] for it in its), max(it["n"] for it in its)


class Chain(Live):
    """What another job has written to a stream."""

    name = "chain"

    def parts(self, chance):
        return {
            "sources": {"copied": {"stream": "copied", "format": "json", "schema": {"n": "bigint", "k": "text"}}},
            "stages": {"even": {"from": "copied", "where": "n % 2 = 0", "select": {"n": "n", "k": "k"}}},
            "sinks": {"rows": file("even", "rows.json"), "chained": {"from": "even", "stream": "chained"}},
        }

    def found(self, node):
        return {
            "rows": Counter((it["n"], it["k"]) for it in rows(self.folder / "rows.json")),
            "chained": Counter((it["value"]["n"], it["value"]["k"]) for it in node.records("chained")),
        }

    def wanted(self, facts):
        even = Counter((it["n"], it["k"]) for *_, it in facts.good if it["n"] % 2 == 0)
        return {"rows": even, "chained": even}


LIVE = (Copy, Count, First, Pairs, Windows, Chain)
