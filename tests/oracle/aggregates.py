"""Aggregates over the records of a window, by SQL's rules; what is no exact number is known within bounds."""

import math

from expressions import INT_MAX, INT_MIN, Open, Refused, rank


class Near:
    """A float between two others; which one depends on the order of sums, or on a sketch."""

    def __init__(self, low, high=None, value=None):
        self.low, self.high, self.value = low, low if high is None else high, value

    def holds(self, found):
        if found is None or isinstance(found, str):
            return False
        if self.low != self.low:
            return found != found
        return rank(self.low) <= rank(float(found)) <= rank(self.high)

    def __repr__(self):
        return f"[{self.low!r}, {self.high!r}]"


def about(value, error):
    return Near(value - error, value + error)


class Call:
    """An aggregate of an expression, with an optional filter."""

    def __init__(self, name, sql, kind, work, argument=None, condition=None):
        self.name, self.sql, self.kind, self.work = name, sql, kind, work
        self.argument, self.condition = argument, condition

    def seen(self, record):
        """The value that a record gives, and whether it counts."""
        counts = not self.condition or self.condition(record) is True
        try:
            return (self.argument(record) if self.argument else 1), counts
        except Refused:
            if counts:
                raise
            # Whether an argument that the filter leaves out is asked for is not said.
            raise Open from None

    def result(self, seen):
        """Of (time, (value, whether it counts)) in the order of arrival."""
        return self.work([(time, value) for time, (value, counts) in seen if counts and value is not None])


def calls(random, expressions, columns, prefix="a"):
    """Some aggregates by column name."""
    return {f"{prefix}{i}": call(random, expressions, columns) for i in range(random.randint(1, 4))}


def call(random, expressions, columns):
    kinds = [it for it in ("int", "float", "text", "bool", "time") if it in columns.values()]
    condition = expressions.of("bool", 2) if random.random() < 0.3 else None
    name = random.choice(
        ["count", "count", "distinct", "sum", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"]
        + ["median", "quantile", "approx_distinct", "min", "max", "min", "max", "first", "last"]
    )
    if name == "count" and random.random() < 0.6 or not kinds:
        return _made("count", "count(*)", "int", len, None, condition)
    if name in ("count", "distinct", "approx_distinct"):
        kind = random.choice(kinds)
    elif name in ("min", "max", "first", "last"):
        kind = random.choice([it for it in kinds if it != "bool" or name in ("first", "last")] or ["int"])
    else:
        kind = random.choice([it for it in kinds if it in ("int", "float")] or ["int"])
    argument = expressions.column(kind) if random.random() < 0.7 or kind == "time" else expressions.of(kind, 2)
    if not argument.columns:
        return _made("count", "count(*)", "int", len, None, condition)
    words = {"distinct": "count(distinct {})", "quantile": "quantile({}, Q)"}.get(name, name + "({})")
    work, made = {
        "count": (len, "int"),
        "distinct": (lambda it: len({rank(value) for _, value in it}), "int"),
        "approx_distinct": (_sketched, "guess"),
        "sum": (_sum if kind == "int" else _float_sum, "int" if kind == "int" else "near"),
        "avg": (_mean, "near"),
        "min": (lambda it: _most(it, min), kind),
        "max": (lambda it: _most(it, max), kind),
        "first": (lambda it: min(it, key=lambda one: _time(one[0]))[1] if it else None, kind),
        "last": (lambda it: max(reversed(it), key=lambda one: _time(one[0]))[1] if it else None, kind),
        "median": (lambda it: _quantile(it, 0.5), "near"),
        "quantile": (None, "near"),
    }.get(name, (lambda it: _spread(it, name), "near"))
    if name == "quantile":
        q = random.choice([0, 0.1, 0.25, 0.5, 0.9, 0.99, 1])
        words, work = words.replace("Q", str(q)), lambda it: _quantile(it, q)
    words = random.choice({"avg": ["avg({})", "mean({})"], "first": ["first({})", "first_value({})"], "last": ["last({})", "last_value({})"]}.get(name, [words]))
    return _made(name, words.format(argument.sql), made, work, argument, condition)


def _made(name, sql, kind, work, argument, condition):
    if condition:
        sql += f" filter (where {condition.sql})"
    return Call(name, sql, kind, work, argument, condition)


def _time(time):
    return 0 if time is None else time


def _most(seen, most):
    if not seen:
        return None
    found = most((value for _, value in seen), key=rank)
    if isinstance(found, float) and found == 0 and len({str(value) for _, value in seen if value == 0}) > 1:
        # Which zero is not said.
        raise Open
    return found


def _sum(seen):
    if not seen:
        return None
    if sum(value for _, value in seen if value > 0) > INT_MAX or sum(value for _, value in seen if value < 0) < INT_MIN:
        raise Open
    return sum(value for _, value in seen)


def _finite(seen):
    """The values as floats, or the one that infinities and NaN among them make."""
    values = [float(value) for _, value in seen]
    odd = [it for it in values if not math.isfinite(it)]
    if odd:
        return None, sum(odd)
    if sum(abs(it) / 1e10 for it in values) > 1e295:
        raise Open
    return values, None


def _float_sum(seen):
    if not seen:
        return None
    values, odd = _finite(seen)
    if values is None:
        return Near(odd)
    return about(math.fsum(values), 1e-12 * math.fsum(map(abs, values)))


def _mean(seen):
    if not seen:
        return None
    values, odd = _finite(seen)
    if values is None:
        return Near(odd)
    return about(math.fsum(values) / len(values), 1e-12 * math.fsum(map(abs, values)) / len(values))


def _spread(seen, name):
    values, _ = _finite(seen)
    if values is None or any(abs(it) > 1e12 for it in values):
        raise Open
    less = 1 if name.endswith("samp") else 0
    if len(values) <= less:
        return None
    mean = math.fsum(values) / len(values)
    found = math.fsum((it - mean) ** 2 for it in values) / (len(values) - less)
    error = 1e-9 * math.fsum(it * it for it in values) / (len(values) - less)
    low, high = max(0.0, found - error), found + error
    return Near(low, high) if name.startswith("var") else Near(math.sqrt(low), math.sqrt(high))


def _quantile(seen, q):
    """Of few values one of them; of many about right."""
    if not seen:
        return None
    values = sorted((float(value) for _, value in seen), key=rank)
    place, slack = q * (len(values) - 1), 1 + len(values) // 20
    low, high = max(0, math.floor(place) - slack), min(len(values) - 1, math.ceil(place) + slack)
    if any(not math.isfinite(it) for it in values):
        low, high = 0, len(values) - 1
    return Near(values[low], values[high])


def _sketched(seen):
    count = len({rank(value) for _, value in seen})
    return about(count, count / 10 + (1 if count > 10 else 0))
