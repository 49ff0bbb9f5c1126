"""What a job writes, computed a second time in plain Python from what docs/job.md says.

A Flow is what a source or a stage gives: rows cycle by cycle, and the watermark after each. What the
documents leave open, such as the order of rows between slices, raises Open wherever it would decide a
result: a stage whose input has no full order is computed for several orders, which must agree."""

from collections import Counter

from expressions import Open, Refused, rank

NEVER, ENDED = -(2**63), 2**63 - 1


class Row:
    """A record with its event time in microseconds, or None."""

    __slots__ = ("time", "values")

    def __init__(self, time, values):
        self.time, self.values = time, values


class Flow:
    """Rows of each cycle, and how far event time is at its end.

    `order` says how far the order of a cycle's rows is defined: `()` wholly, a tuple of columns among
    rows that are equal in those, None not at all. `window` is true while rows have the columns and the
    time of the window over time that they are of, and `named` while the order of columns is known."""

    def __init__(self, columns, cycles, marks, order=(), timed=True, window=False, named=True):
        self.columns, self.cycles, self.marks = columns, cycles, marks
        self.order, self.timed, self.window, self.named = order, timed, window, named
        self.refused = 0

    def rows(self):
        return [row for cycle in self.cycles for row in cycle]

    def like(self, cycles, columns=None, **other):
        made = Flow(columns or self.columns, cycles, self.marks, self.order, self.timed, self.window, self.named)
        for name, value in other.items():
            setattr(made, name, value)
        return made

    def shuffled(self, random):
        """The same rows in another order that is as well defined as this one."""
        if self.order == ():
            return self
        cycles = []
        for cycle in self.cycles:
            groups = {}
            for row in cycle:
                groups.setdefault(None if self.order is None else key_of(row, self.order), []).append(row)
            if self.order is None:
                rows = list(cycle)
                random.shuffle(rows)
            else:
                # Rows of one key stay in their order; keys are mixed.
                places = [key for key, rows in groups.items() for _ in rows]
                random.shuffle(places)
                each = {key: iter(rows) for key, rows in groups.items()}
                rows = [next(each[key]) for key in places]
            cycles.append(rows)
        return self.like(cycles)


def key_of(row, columns):
    return tuple((None,) if row.values[it] is None else rank(row.values[it]) for it in columns)


def marks_before(flow):
    return [NEVER, *flow.marks[:-1]]


def behind(flow, key):
    """How far the order is defined behind a stage whose slices follow a key."""
    return tuple(key) if flow.order is not None and set(flow.order) <= set(key) else None


def fingerprint(flow):
    """Rows of each cycle without their order."""
    return [Counter((row.time, *(repr(row.values[it]) for it in flow.columns)) for row in cycle) for cycle in flow.cycles]


def settled(random, flow, stage):
    """`stage(flow)` (one or several flows), if no order that `flow` may have changes it."""
    made = stage(flow)
    if flow.order != ():
        several = made if isinstance(made, tuple) else (made,)
        for _ in range(6):
            again = stage(flow.shuffled(random))
            again = again if isinstance(again, tuple) else (again,)
            if [fingerprint(it) for it in several] != [fingerprint(it) for it in again]:
                raise Open
    return made


def union(flows):
    """Rows of several inputs of the same columns; nothing says which come first in a cycle."""
    if len(flows) == 1:
        return flows[0]
    length = max(len(it.cycles) for it in flows)
    flows = [padded(it, length) for it in flows]
    cycles = [[row for it in flows for row in it.cycles[cycle]] for cycle in range(length)]
    marks = [min(it.marks[cycle] for it in flows) for cycle in range(length)]
    return Flow(flows[0].columns, cycles, marks, None, all(it.timed for it in flows))


def padded(flow, length):
    more = length - len(flow.cycles)
    return flow.like(flow.cycles + [[]] * more, marks=flow.marks + [ENDED] * more)


def transformed(flow, unnest=None, where=None, select=None, copies=1):
    """`flat_map` (name, expression), `where`, `select` (name to expression), in this order."""
    refused, cycles = 0, []
    for cycle in flow.cycles:
        rows = []
        for row in cycle:
            many, made = [row], []
            try:
                if unnest:
                    name, listed = unnest
                    many = [Row(row.time, {**row.values, name: it}) for it in listed(row.values) or []]
                for one in many:
                    if not where or where(one.values) is True:
                        values = {name: it(one.values) for name, it in select.items()} if select else one.values
                        made += [Row(one.time, values)] * copies
            except Refused:
                # Nothing is taken of a record of which one element has no value.
                refused += 1
                continue
            rows += made
        cycles.append(rows)
    columns = dict(flow.columns)
    if unnest:
        columns[unnest[0]] = "text"
    if select:
        columns = {name: it.kind for name, it in select.items()}
    kept = [name for name in flow.columns if not select or (name in select and select[name].sql.strip('"') == name)]
    made = flow.like(cycles, columns)
    if flow.order and not set(flow.order) <= set(kept) or copies > 1:
        made.order = None
    made.window = flow.window and {"window_start", "window_end"} <= set(kept)
    made.named = flow.named or bool(select)
    made.refused = refused * copies
    return made


def evaluated(flow, calls):
    """Rows with the values of all arguments and filters beside them; a record with one that has no
    value is refused whole."""
    refused, cycles = 0, []
    for cycle in flow.cycles:
        rows = []
        for row in cycle:
            try:
                rows.append((row, [it.seen(row.values) for it in calls.values()]))
            except Refused:
                refused += 1
        cycles.append(rows)
    return cycles, refused


class Gathered:
    """Records of one window of a key."""

    def __init__(self, start=None, end=None):
        self.start, self.end, self.rows = start, end, []

    def result(self, key, names, calls, time, is_time):
        values = {name: self.rows[0][0].values[name] for name in names}
        # A key has one zero.
        values = {name: it + 0.0 if isinstance(it, float) else it for name, it in values.items()}
        if is_time:
            values |= {"window_start": self.start, "window_end": self.end}
        for place, (name, call) in enumerate(calls.items()):
            values[name] = call.result([(row.time, seen[place]) for row, seen in self.rows])
        return Row(time, values)


def windowed(flow, names, window, calls):
    """`window` is a kind and its numbers; gives the results and the late records."""
    kind, *numbers = window
    is_time = kind in ("tumbling", "sliding", "session")
    if is_time and not flow.timed:
        raise Open
    cycles, refused = evaluated(flow, calls)
    columns = {it: flow.columns[it] for it in names}
    if is_time:
        columns |= {"window_start": "time", "window_end": "time"}
    columns |= {name: it.kind for name, it in calls.items()}
    work = {"tumbling": _spans, "sliding": _spans, "session": _sessions, "count": _counts, "global": _whole}[kind]
    results, late = work(flow, cycles, names, numbers, calls)
    if refused and any(late):
        # A record that has no value and is late: which of both is not said.
        raise Open
    marks = flow.marks
    if kind == "global" and names:
        marks = [it if it == ENDED else NEVER for it in marks]
    order = (tuple(names) if names else ()) if kind == "count" else None
    made = Flow(columns, results, marks, order, flow.timed, window=is_time)
    made.refused = refused
    beside = flow.like(late, order=behind(flow, names), window=False)
    return made, beside


def _spans(flow, cycles, names, numbers, calls):
    size, every = (numbers * 2)[:2]
    open_, results, lates = {}, [], []
    for cycle, before, mark in zip(cycles, marks_before(flow), flow.marks):
        late = []
        for row, seen in cycle:
            last = row.time // every * every
            starts = range(last, row.time - size, -every)
            if not starts:
                # It is between two windows: whether it is late is not said.
                raise Open
            if starts[0] + size <= before:
                late.append(row)
            for start in starts:
                if start + size > before:
                    key = (start, key_of(row, names))
                    open_.setdefault(key, Gathered(start, start + size)).rows.append((row, seen))
        done = sorted((it for it in open_ if it[0] + size <= mark), key=lambda it: it[0])
        closing = [(it, open_.pop(it)) for it in done]
        results.append([it.result(key, names, calls, it.end - 1, True) for key, it in closing])
        lates.append(late)
    return results, lates


def _sessions(flow, cycles, names, numbers, calls):
    (gap,) = numbers
    open_, results, lates = {}, [], []
    for cycle, before, mark in zip(cycles, marks_before(flow), flow.marks):
        late = []
        for row, seen in cycle:
            sessions = open_.setdefault(key_of(row, names), [])
            touched = [it for it in sessions if it.start - gap < row.time < it.end]
            if not touched and row.time + gap <= before:
                late.append(row)
                continue
            one = Gathered(min([row.time, *(it.start for it in touched)]), max([row.time + gap, *(it.end for it in touched)]))
            one.rows = [pair for it in touched for pair in it.rows] + [(row, seen)]
            open_[key_of(row, names)] = [it for it in sessions if it not in touched] + [one]
        rows = []
        for key, sessions in open_.items():
            rows += [it.result(key, names, calls, it.end - 1, True) for it in sessions if it.end <= mark]
            open_[key] = [it for it in sessions if it.end > mark]
        results.append(rows)
        lates.append(late)
    return results, lates


def _counts(flow, cycles, names, numbers, calls):
    size, every = numbers
    seen_of, results = {}, []
    for cycle in cycles:
        rows = []
        for row, seen in cycle:
            key = key_of(row, names)
            records = seen_of.setdefault(key, [])
            records.append((row, seen))
            if len(records) % every == 0:
                gathered = Gathered()
                gathered.rows = records[-size:]
                rows.append(gathered.result(key, names, calls, row.time, False))
        results.append(rows)
    return results, [[] for _ in cycles]


def _whole(flow, cycles, names, _, calls):
    groups = {}
    for cycle in cycles:
        for row, seen in cycle:
            groups.setdefault(key_of(row, names), Gathered()).rows.append((row, seen))
    if not groups:
        raise Open
    latest = [max(row.time for row, _ in it.rows) if flow.timed else None for it in groups.values()]
    rows = [it.result(key, names, calls, time, False) for (key, it), time in zip(groups.items(), latest)]
    return [[] for _ in cycles[:-1]] + [rows], [[] for _ in cycles]


def top(flow, k, by, ascending, per):
    """The best `k` of each group: by window once that has closed, else at the end."""
    by_window = bool({"window_start", "window_end"} & set(per))
    if by_window and not flow.window:
        raise Open
    refused, groups, results = 0, {}, []
    for cycle, mark in zip(flow.cycles, flow.marks):
        for row in cycle:
            try:
                ranked = (by(row.values), row)
                groups.setdefault(key_of(row, per), []).append(ranked)
            except Refused:
                refused += 1
        rows = []
        for key, group in [it for it in groups.items() if it[1]]:
            ends = max(row.values["window_end"] for _, row in group) if by_window else ENDED
            if ends <= mark:
                known = sorted((it for it in group if it[0] is not None), key=lambda it: rank(it[0]), reverse=not ascending)
                # Sorting keeps the order of equals, also reversed.
                ranked = known + [it for it in group if it[0] is None]
                is_ordered = flow.order is not None and set(flow.order) <= set(per)
                if not is_ordered and len(ranked) > k and rank(ranked[k - 1][0]) == rank(ranked[k][0]):
                    # Which of equals came first is not said.
                    raise Open
                rows += [row for _, row in ranked[:k]]
                del groups[key]
        results.append(rows)
    # What comes at the end may have any time, and is late for nobody.
    marks = flow.marks if by_window else [it if it == ENDED else NEVER for it in flow.marks]
    made = flow.like(results, order=None, marks=marks)
    made.refused = refused
    return made


def dedup(flow, on, within):
    known, cycles = {}, []
    for cycle, before in zip(flow.cycles, marks_before(flow)):
        rows = []
        for row in cycle:
            key = key_of(row, on)
            end = known.get(key)
            if end is not None and within is not None and row.time < end <= before:
                # It is older than what may be forgotten already.
                raise Open
            if end is None or within is not None and row.time >= end:
                known[key] = ENDED if within is None else row.time + within
                rows.append(row)
        cycles.append(rows)
    return flow.like(cycles, order=behind(flow, on))


def joined_columns(left, right, right_on):
    """Columns of a join, and which column of the right each of its own is."""
    columns, taken = dict(left.columns), {}
    for name, kind in right.columns.items():
        if name in right_on:
            continue
        called = name
        while called in columns or (called != name and called in right.columns):
            called = "right_" + called
        columns[called] = kind
        taken[called] = name
    return columns, taken


def table_join(left, table, on, kind):
    """`table` is read before the left begins; its last row of a key counts."""
    rows = {}
    for row in table.rows():
        rows[key_of(row, [it for _, it in on])] = row
    columns, taken = joined_columns(left, table, {it for _, it in on})
    cycles = []
    for cycle in left.cycles:
        made = []
        for row in cycle:
            names = [it for it, _ in on]
            found = None if None in (row.values[it] for it in names) else rows.get(key_of(row, names))
            if found or kind == "left":
                more = {called: found.values[name] if found else None for called, name in taken.items()}
                made.append(Row(row.time, {**row.values, **more}))
        cycles.append(made)
    order = behind(left, [it for it, _ in on])
    return left.like(cycles, columns, named=left.named and table.named, window=False, order=order)


def stream_join(left, right, on, within, kind):
    """Pairs of equal keys at most `within` apart. A pair has the later of both times."""
    length = max(len(left.cycles), len(right.cycles))
    left, right = padded(left, length), padded(right, length)
    for flow, other in ((left, right), (right, left)):
        passed = [max(it) for it in zip(marks_before(left), marks_before(right))]
        for cycle, before in zip(flow.cycles, passed):
            if any(row.time < before for row in cycle):
                # It is late, and its partners may be gone.
                raise Open
    columns, taken = joined_columns(left, right, {it for _, it in on})
    sides = [[(cycle, row) for cycle, rows in enumerate(flow.cycles) for row in rows] for flow in (left, right)]
    by_key = {}
    for cycle, row in sides[1]:
        names = [it for _, it in on]
        if None not in (row.values[it] for it in names):
            by_key.setdefault(key_of(row, names), []).append((cycle, row))
    cycles = [[] for _ in range(length)]
    for cycle, row in sides[0]:
        names = [it for it, _ in on]
        null = None in (row.values[it] for it in names)
        near = [] if null else [it for it in by_key.get(key_of(row, names), []) if abs(it[1].time - row.time) <= within]
        for other, partner in near:
            more = {called: partner.values[name] for called, name in taken.items()}
            cycles[max(cycle, other)].append(Row(max(row.time, partner.time), {**row.values, **more}))
        if not near and kind == "left":
            out = next(it for it in range(cycle, length) if right.marks[it] == ENDED or row.time + within < right.marks[it])
            cycles[out].append(Row(row.time, {**row.values, **dict.fromkeys(taken)}))
    marks = [min(it) for it in zip(left.marks, right.marks)]
    if kind == "left":
        marks = [it if it == ENDED else max(NEVER, it - within) for it in marks]
    return Flow(columns, cycles, marks, None, named=left.named and right.named)
