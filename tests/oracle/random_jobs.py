"""A random job, stage by stage, with what each stage must write.

A stage whose result the documents leave open, or that would write too much, is taken back, and another
one is tried: what is left is a job with one right answer."""

import json
import random

import aggregates
import model
from expressions import Expr, Expressions, Open, quoted
from records import Shape, Source

# Rows of a stage, above which it is taken back.
ROWS_MAX = 4000


class Job:
    """A job of a seed: its description, its files in `folder`, and the Flow of each stage and source."""

    def __init__(self, seed, folder):
        self.random, self.folder = random.Random(seed), folder
        self.stages, self.sinks, self.flows, self.tables, self.read = {}, {}, {}, set(), set()
        pick = self.random.choice
        self.head = {"name": "random", "slices": pick([1, 2, 3, 7, 64]), "parallelism": pick([1, 2, 3, 4])}
        self.per_cycle = pick([1, 2, 5, 10, 10, 25, 25, 100_000])
        self.head["cycle"] = {"records": self.per_cycle}
        if self.random.random() < 0.3:
            self.head["state"] = {"share_windows": False}
        # Keys that leave memory must come back as they were; that takes a job of some time.
        self.is_saved = self.random.random() < 0.1
        count = None
        if self.is_saved:
            self.head["checkpoint"] = {"every": "1ms"}
            self.per_cycle, count = pick([1, 2]), pick([500, 1000])
            self.head["cycle"] = {"records": self.per_cycle}
        shape = Shape(self.random, self.per_cycle, count)
        self.pace = shape.pace
        self.sources = [Source(self.random, name, folder, shape) for name in "abc"[: 1 if self.is_saved else pick([1, 1, 2, 2, 3])]]
        for source in self.sources:
            self.flows[source.name] = source.flow
            source.flow.refused = source.refused
        if len(self.sources) > 1 and self.random.random() < 0.35:
            self.tables.add(self.sources[-1].name)
        wanted = self.random.randint(1, 5)
        for _ in range(60):
            if len(self.stages) >= wanted:
                break
            self._stage(f"s{len(self.stages) + 1}")
        self._sinks()

    def description(self):
        made = {**self.head, "sources": {it.name: it.entry for it in self.sources if it.name in self.read}}
        made |= {"stages": self.stages} if self.stages else {}
        return {**made, "sinks": self.sinks}

    def text(self):
        """One entry a line, as people would write it."""
        lines = []
        for name, value in self.description().items():
            if isinstance(value, dict) and name in ("sources", "stages", "sinks"):
                lines += [f"{name}:", *(f"  {json.dumps(key)}: {json.dumps(it, ensure_ascii=False)}" for key, it in value.items())]
            else:
                lines.append(f"{name}: {json.dumps(value)}")
        return "\n".join(lines) + "\n"

    def _stage(self, name):
        kinds = ["transform"] * 5 + ["window"] * 8 + ["top"] * 2 + ["dedup"] * 2 + ["join", "within"]
        if any(it.window for it in list(self.flows.values())[-2:]):
            # Windows over windows, and the best of each.
            kinds += ["window"] * 12 + ["top"] * 3
        kind = self.random.choice(kinds)
        try:
            entry, flow, more = getattr(self, f"_{kind}")()
        except Open:
            return
        if len(flow.rows()) > ROWS_MAX or not flow.columns:
            return
        late = None
        if more is not None and self.random.random() < 0.6:
            late = f"{name}_late"
            entry["late"] = late
        if "partition" not in entry and self.random.random() < 0.2:
            entry["slices"] = self.random.choice([1, 2, 5])
        self.stages[name], self.flows[name] = entry, flow
        # What is made of a table alone can be a table.
        if set(_inputs(entry)) <= self.tables:
            self.tables.add(name)
        if late:
            self.flows[late] = more
            if name in self.tables:
                self.tables.add(late)

    def _input(self):
        """Names of one or several inputs, and their rows."""
        # A table's source is read for tables alone; a job in which no join reads one is made without.
        of_table = bool(self.tables) and self.random.random() < 0.15
        names = [it for it in self.flows if (it in self.tables) == of_table]
        if not names:
            raise Open
        # The later ones are read more often, so that stages form chains.
        name = self.random.choice(names[-2:] if self.random.random() < 0.7 else names)
        one = self.flows[name]
        alike = [(it, self.flows[it]) for it in names if it != name and one.named and self.flows[it].named]
        same = [it for it, flow in alike if list(flow.columns.items()) == list(one.columns.items()) and flow.timed == one.timed]
        if same and self.random.random() < 0.6:
            listed = [name, self.random.choice(same)]
            return listed, model.union([self.flows[it] for it in listed])
        return name, self.flows[name]

    def _change(self, entry, flow, few=0.5, unnests=True):
        """`flat_map`, `where` and `select` of a stage, and what they make of its rows."""
        parts, shown = {}, {}
        columns = {it: kind for it, kind in flow.columns.items() if kind not in ("near", "guess")}
        made = Expressions(self.random, columns)
        usable = {"int", "float", "text", "bool", "time"} & set(columns.values())
        if unnests and "text" in columns.values() and self.random.random() < 0.15:
            listed = made.of("list")
            parts["unnest"] = ("word", listed)
            shown["flat_map"] = {"unnest": listed.sql, "as": "word"}
            columns["word"] = "text"
        if usable and self.random.random() < 0.4:
            parts["where"] = made.of("bool")
            shown["where"] = parts["where"].sql
        if usable and self.random.random() < few:
            chosen = {}
            for name, kind in columns.items():
                if self.random.random() < 0.5:
                    chosen[name] = _column(name, kind)
            for i in range(self.random.randint(1, 3)):
                chosen[f"e{i}"] = made.of("any")
            if self.random.random() < (0.8 if len(self.sources) > 1 else 0.3):
                # The same columns for all, so that there is something for a union.
                chosen = {"k": _column("k", columns["k"])} if "k" in columns else {}
                chosen |= {"u": made.of("int", 2), "v": made.of("text", 2)}
            if any(not it.columns for it in chosen.values()) and self.random.random() < 0.8:
                raise Open
            parts["select"] = chosen
            shown["select"] = {name: it.sql for name, it in chosen.items()}
        entry.update(shown)
        return model.transformed(flow, **parts) if parts else flow

    def _transform(self):
        names, flow = self._input()
        entry = {"from": names}
        made = self._change(entry, flow, few=0.7)
        if len(entry) == 1:
            raise Open
        chance = self.random.random()
        if chance < 0.1:
            entry["partition"], made.order = "random", None
        elif chance < 0.15 and made.refused == 0:
            entry["partition"], entry["slices"] = "all", self.random.choice([1, 2, 3])
            return entry, model.transformed(made, copies=entry["slices"]), None
        elif chance < 0.2:
            entry["partition"] = "one"
            made.order = () if flow.order == () else None
        return entry, made, None

    def _keys(self, flow, least=0, never=()):
        names = [it for it, kind in flow.columns.items() if it not in never and kind in ("int", "float", "text", "bool", "time")]
        few = [it for it in names if it in ("k", "v", "measurement", "word")] or names
        count = self.random.choice([least, 1, 1, 1, 2])
        pool = few if self.random.random() < 0.7 else names
        if len(pool) < count:
            raise Open
        return self.random.sample(pool, count)

    def _window(self):
        names, flow = self._input()
        entry = {"from": names}
        before = flow
        if self.random.random() < 0.4:
            flow = self._change(entry, flow, few=0.3)
        size = self.pace * self.random.choice([1, 2, 3, 5, 7, 12, 40])
        windows = ["count", "global"] + ["tumbling", "tumbling", "sliding", "sliding", "session", "session"] * flow.timed
        if flow.window:
            # Larger ones, so that there is something to gather.
            size *= self.random.choice([1, 3, 10])
        if self.is_saved and not self.stages:
            windows = ["count"]
        kind = self.random.choice(windows)
        keys = self._keys(flow, never=("window_start", "window_end") if kind in ("tumbling", "sliding", "session") else ())
        if kind == "sliding":
            every = max(1, size // self.random.choice([1, 2, 3, 4, 7]))
            window, shown = (kind, size, every), {"size": f"{size}us", "every": f"{every}us"}
        elif kind == "count":
            numbers = self.random.randint(1, 6), self.random.randint(1, 4)
            window, shown = (kind, *numbers), {"size": numbers[0], "every": numbers[1]}
        elif kind == "global":
            window, shown = (kind,), {}
        else:
            window, shown = (kind, size), f"{size}us"
        columns = {it: its for it, its in flow.columns.items() if its not in ("near", "guess", "list")}
        prefix = next(it for it in "abdfghijlm" if f"{it}0" not in keys and not any(key[:1] == it and key[1:].isdigit() for key in keys))
        calls = aggregates.calls(self.random, Expressions(self.random, columns), columns, prefix)
        made, late = model.settled(self.random, flow, lambda it: model.windowed(it, keys, window, calls))
        made.refused += flow.refused if flow is not before else 0
        if keys:
            entry["key"] = keys
        if kind == "count" and self.is_saved:
            entry["ttl"] = "1ms"
        entry |= {"window": {kind: shown}, "aggregate": {name: it.sql for name, it in calls.items()}}
        if not any(made.cycles) and not any(late.cycles):
            raise Open
        return entry, made, late if kind in ("tumbling", "sliding", "session") else None

    def _top(self):
        names, flow = self._input()
        entry, before = {"from": names}, flow
        if self.random.random() < 0.2:
            flow = self._change(entry, flow, few=0.3)
        columns = {it: kind for it, kind in flow.columns.items() if kind not in ("near", "guess", "list")}
        if not columns:
            raise Open
        by = Expressions(self.random, columns)
        by = by.column(self.random.choice(list(columns.values()))) if self.random.random() < 0.6 else by.of(self.random.choice(["int", "float", "text"]), 2)
        k, ascending = self.random.randint(1, 6), self.random.random() < 0.3
        per = ["window_start"] if flow.window and self.random.random() < 0.7 else self._keys(flow)
        if not by.columns:
            raise Open
        made = model.settled(self.random, flow, lambda it: model.top(it, k, by, ascending, per))
        made.refused += flow.refused if flow is not before else 0
        entry["top"] = {"k": k, "by": by.sql, **({"ascending": True} if ascending else {}), **({"per": per} if per else {})}
        if list(by.columns)[0] == by.sql.strip('"'):
            entry["top"]["by"] = by.sql.strip('"')
        return entry, made, None

    def _dedup(self):
        names, flow = self._input()
        entry, before = {"from": names}, flow
        if self.random.random() < 0.3:
            flow = self._change(entry, flow, few=0.3)
        on = self._keys(flow, least=1)
        within = self.random.choice([None, self.pace, 3 * self.pace, 20 * self.pace]) if flow.timed else None
        made = model.settled(self.random, flow, lambda it: model.dedup(it, on, within))
        made.refused = flow.refused if flow is not before else 0
        entry["dedup"] = {"on": on, **({"within": f"{within}us"} if within else {})}
        return entry, made, None

    def _on(self, left, right):
        """Columns that must be equal, of the same types."""
        pairs = [(a, b) for a, kind in left.columns.items() for b, its in right.columns.items() if kind == its and kind in ("int", "text", "bool", "time", "float")]
        if not pairs:
            raise Open
        likely = [it for it in pairs if it[0] == it[1]] or pairs
        chosen = [self.random.choice(likely if self.random.random() < 0.8 else pairs)]
        return chosen, [a if a == b else f"{a} = {b}" for a, b in chosen]

    def _after(self, entry, made):
        if self.random.random() < 0.4:
            more = {}
            made = self._change(more, made, few=0.4, unnests=False)
            entry.update(more)
        return entry, made, None

    def _pair(self, lefts, rights):
        if not lefts or not rights:
            raise Open
        left, right = self.random.choice(lefts[-3:]), self.random.choice(rights[-3:])
        on, shown = self._on(self.flows[left], self.flows[right])
        return left, right, on, shown, self.random.choice(["inner", "left"])

    def _join(self):
        tables = [it for it in self.flows if it in self.tables]
        left, table, on, shown, kind = self._pair([it for it in self.flows if it not in self.tables], tables)
        flow, table_flow = self.flows[left], self.flows[table]
        made = model.settled(self.random, table_flow, lambda it: model.table_join(flow, it, on, kind))
        entry = {"join": {"left": left, "table": table, "on": shown, "kind": kind}}
        return self._after(entry, made)

    def _within(self):
        timed = [it for it, flow in self.flows.items() if flow.timed and it not in self.tables]
        left, right, on, shown, kind = self._pair(timed, timed)
        within = self.random.choice([self.pace, 3 * self.pace, 20 * self.pace])
        made = model.stream_join(self.flows[left], self.flows[right], on, within, kind)
        entry = {"join": {"left": left, "right": right, "on": shown, "within": f"{within}us", "kind": kind}}
        return self._after(entry, made)

    def _sinks(self):
        """Every stage is written, in a format of its own, but for those of tables; and what no stage
        reads of the sources."""
        joined = {it["join"]["table"] for it in self.stages.values() if "table" in it.get("join", ())}
        for name in reversed(list(self.stages)):
            if name not in self.tables:
                continue
            late = self.stages[name].get("late")
            if name in joined or late in joined:
                joined |= set(_listed(self.stages[name]["from"]))
            else:
                del self.stages[name]
        self.read = joined | {it for entry in self.stages.values() for it in _inputs(entry)}
        for name, flow in self.flows.items():
            if name in self.tables or name in {it.name for it in self.sources} and name in self.read and self.random.random() < 0.8:
                continue
            format = self.random.choice(["json", "json", "csv", "csv", "parquet", "arrow"] + ["text"] * flow.named)
            self.sinks[f"{name}_out"] = {"from": name, "file": {"path": f"{name}.out.{format}", "format": format}}
            self.read.add(name)
        if not self.sinks:
            name = self.sources[0].name
            self.sinks[f"{name}_out"] = {"from": name, "file": {"path": f"{name}.out.json", "format": "json"}}
            self.read.add(name)
        self.sinks["bad"] = {"from": "dead_letter", "file": {"path": "bad.json", "format": "json"}}


def _listed(names):
    return [names] if isinstance(names, str) else names


def _inputs(entry):
    join = entry.get("join")
    return [join["left"], join.get("right") or join["table"]] if join else _listed(entry["from"])


def _column(name, kind):
    return Expr(quoted(name), kind, lambda record: record[name], [name])
