"""Random SQL expressions, each with what it is worth in plain Python by SQL's rules for nulls.

An expression is its SQL, its type and a function from a record (a dict) to its value. A record that it
has no value for raises Refused. Types are `int` (64 bits), `float`, `text`, `bool`, `time` (microseconds)
and `list` (of texts); columns of the types `near` and `guess` (floats and
whole numbers known within bounds) are in no expression."""

import math

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
HOUR = 3_600_000_000


class Refused(Exception):
    """The expression has no value for this record."""


class Open(Exception):
    """The documents do not say what comes out."""


class Expr:
    def __init__(self, sql, kind, value, columns=()):
        self.sql, self.kind, self.value, self.columns = sql, kind, value, frozenset(columns)

    def __call__(self, record):
        return self.value(record)


def quoted(name):
    """A column's name as an expression has it."""
    plain = name.isidentifier() and name.isascii() and name.lower() not in WORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


WORDS = {"select", "from", "order", "group", "time", "user", "end", "case", "text", "at", "key", "value", "interval", "measurement"}


def whole(value):
    if not INT_MIN <= value <= INT_MAX:
        raise Refused
    return value


def rank(value):
    """By what floats are compared: one NaN above all numbers, one zero."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value + 0.0)
    return value


def strict(kind, sql, function, *args):
    """A call that is null if any argument is."""

    def value(record):
        values = [it(record) for it in args]
        return None if None in values else function(*values)

    return Expr(sql.format(*(it.sql for it in args)), kind, value, frozenset().union(*(it.columns for it in args)))


def loose(kind, sql, value, *args):
    """A call that looks at its arguments itself, so that it may leave some out."""
    return Expr(sql.format(*(it.sql for it in args)), kind, value, frozenset().union(*(it.columns for it in args)))


def divided(a, b):
    if b == 0:
        raise Refused
    return whole(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def remainder(a, b):
    if b == 0:
        raise Refused
    if a == INT_MIN and b == -1:
        raise Open
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def floating(a, b, sign):
    try:
        if sign == "+":
            return a + b
        if sign == "-":
            return a - b
        if sign == "*":
            return a * b
        if b == 0:
            if a == 0 or a != a:
                return math.nan
            return math.inf * math.copysign(1, a) * math.copysign(1, b)
        return a / b
    except OverflowError:
        return math.nan


def rounded_to_whole(value):
    """`cast(x as bigint)`: what is behind the point is cut."""
    if value != value or math.isinf(value) or not -(2.0**63) <= value < 2.0**63:
        raise Refused
    return int(value)


def parsed(text):
    body = text[1:] if text[:1] in "+-" else text
    if not body or not body.isascii() or not body.isdigit():
        if text != text.strip() or "." in text or "e" in text.lower():
            raise Open
        raise Refused
    return whole(int(text))


def like(text, pattern):
    """`%` is anything, `_` one character."""
    reach = {0}
    for sign in pattern:
        if sign == "%":
            reach = set(range(min(reach), len(text) + 1)) if reach else reach
        else:
            reach = {i + 1 for i in reach if i < len(text) and sign in ("_", text[i])}
    return len(text) in reach


def connected(a, b, decides):
    """`and` is decided by a side that is false, `or` by one that is true, whatever the other is."""

    def value(record):
        left = a(record)
        if left is decides:
            return decides
        right = b(record)
        if right is decides:
            return decides
        return None if left is None or right is None else not decides

    return value


COMPARED = {
    "=": lambda a, b: rank(a) == rank(b),
    "<>": lambda a, b: rank(a) != rank(b),
    "<": lambda a, b: rank(a) < rank(b),
    "<=": lambda a, b: rank(a) <= rank(b),
    ">": lambda a, b: rank(a) > rank(b),
    ">=": lambda a, b: rank(a) >= rank(b),
}


class Expressions:
    """Expressions over columns (name to type)."""

    def __init__(self, random, columns):
        self.random, self.columns = random, columns

    def of(self, kind, depth=3):
        """Of a type, with at least one column in it wherever one can be."""
        made = getattr(self, f"_{kind}")(depth)
        return made

    def column(self, kind):
        names = [it for it, its in self.columns.items() if its == kind]
        if not names:
            raise Open
        name = self.random.choice(names)
        return Expr(quoted(name), kind, lambda record: record[name], [name])

    def constant(self, kind):
        pick = self.random.choice
        if kind == "int":
            it = pick([0, 1, 2, 3, 7, 10, 100, -1, -5, 1_000_003, 2**40])
            return Expr(str(it) if it >= 0 else f"({it})", kind, lambda _: it)
        if kind == "float":
            it = pick([0.0, 0.5, 1.5, 2.0, -0.25, 1e10, 0.1, 1e-7])
            return Expr(f"{it}" if it >= 0 else f"({it})", kind, lambda _: it)
        if kind == "text":
            it = pick(["a", "b", "", "x y", "ü", "it''s", "%", "abc"])
            return Expr(f"'{it}'", kind, lambda _: it.replace("''", "'"))
        if kind == "bool":
            it = pick([True, False])
            return Expr(str(it).lower(), kind, lambda _: it)
        raise Open

    def leaf(self, kind):
        has = kind in self.columns.values()
        return self.column(kind) if has and (kind == "time" or self.random.random() < 0.8) else self.constant(kind)

    def _any(self, depth):
        kinds = ["int", "float", "text", "bool"] + ["time"] * ("time" in self.columns.values())
        return self.of(self.random.choice(kinds), depth)

    def _int(self, depth):
        if depth <= 0 or self.random.random() < 0.2:
            return self.leaf("int")
        a, b = self.column("int"), self.of("int", depth - 1)
        shape = self.random.randrange(17)
        if shape < 3:
            sign = "+-*"[shape]
            work = [lambda x, y: whole(x + y), lambda x, y: whole(x - y), lambda x, y: whole(x * y)][shape]
            return strict("int", f"({{}} {sign} {{}})", work, a, b)
        if shape == 3:
            return strict("int", "({} / {})", divided, b, a)
        if shape == 4:
            return strict("int", "({} % {})", remainder, a, b)
        if shape == 5:
            return strict("int", "abs({})", lambda x: whole(abs(x)), b)
        if shape == 6:
            return strict("int", "cast({} as bigint)", rounded_to_whole, self.of("float", depth - 1))
        if shape == 7:
            return strict("int", "cast(length({}) as bigint)", len, self.of("text", depth - 1))
        if shape == 8:
            return strict("int", "cast({} as bigint)", parsed, self.column("text"))
        if shape == 9:
            text = self.column("text")

            def tried(record):
                found = text(record)
                try:
                    return None if found is None else parsed(found)
                except Refused:
                    return None

            return loose("int", "try_cast({} as bigint)", tried, text)
        if shape == 10 and "time" in self.columns.values():
            part, size, wrap = self.random.choice([("hour", HOUR, 24), ("minute", HOUR // 60, 60)])
            return strict("int", f"cast(date_part('{part}', {{}}) as bigint)", lambda it: it // size % wrap, self.column("time"))
        if shape == 11:
            text, part = self.column("text"), self.random.choice(["a", "b", " "])
            return strict("int", f"cast(strpos({{}}, '{part}') as bigint)", lambda it: it.find(part) + 1, text)
        if shape == 12:
            return strict("int", "cast({} as bigint)", int, self.of("bool", depth - 1))
        if shape == 13:
            return loose("int", "greatest({}, {})", _most(a, b, max), a, b)
        return self._chosen("int", a, b, depth)

    def _chosen(self, kind, a, b, depth):
        """Nulls and branches, of any type."""
        shape = self.random.randrange(4)
        if shape == 0:
            return loose(kind, "coalesce({}, {})", lambda record: b(record) if a(record) is None else a(record), a, b)
        if shape == 1:

            def value(record):
                left, right = a(record), b(record)
                return None if left is not None and right is not None and rank(left) == rank(right) else left

            return loose(kind, "nullif({}, {})", value, a, b)
        asked = self.of("bool", depth - 1)
        if shape == 2:
            return loose(kind, "case when {} then {} else {} end", lambda record: a(record) if asked(record) is True else b(record), asked, a, b)
        return loose(kind, "case when {} then {} end", lambda record: b(record) if asked(record) is True else None, asked, b)

    def _float(self, depth):
        if depth <= 0 or self.random.random() < 0.2:
            return self.leaf("float")
        a, b = self.column("float"), self.of("float", depth - 1)
        shape = self.random.randrange(13)
        if shape < 4:
            sign = "+-*/"[shape]
            return strict("float", f"({{}} {sign} {{}})", lambda x, y: floating(x, y, sign), a, b)
        if shape == 4:
            return strict("float", "cast({} as double)", float, self.of("int", depth - 1))
        if shape == 5:
            return strict("float", "abs({})", abs, b)
        if shape == 6:
            name, work = self.random.choice([("floor", math.floor), ("ceil", math.ceil)])

            def rounded(it):
                return it if not math.isfinite(it) or abs(it) > 2.0**53 else math.copysign(float(work(it)), it)

            return strict("float", f"{name}({{}})", rounded, b)
        if shape == 7:
            return strict("float", "({} + {})", lambda x, y: floating(x, float(y), "+"), a, self.column("int"))
        if shape == 8:
            return strict("float", "(-{})", lambda x: -x, a)
        return self._chosen("float", a, b, depth)

    def _text(self, depth):
        if depth <= 0 or self.random.random() < 0.25:
            return self.leaf("text")
        a, b = self.column("text"), self.of("text", depth - 1)
        shape = self.random.randrange(13)
        if shape == 0:
            return strict("text", "({} || {})", lambda x, y: x + y, a, b)
        if shape == 1:
            name, work = self.random.choice([("upper", str.upper), ("lower", str.lower), ("reverse", lambda it: it[::-1])])
            return strict("text", f"{name}({{}})", work, b)
        if shape == 2:
            start, size = self.random.randint(1, 4), self.random.randint(0, 5)
            return strict("text", f"substr({{}}, {start}, {size})", lambda it: it[start - 1 : start - 1 + size], b)
        if shape == 3:
            return strict("text", "cast({} as text)", str, self.of("int", depth - 1))
        if shape == 4:
            return loose("text", "concat({}, {})", lambda record: (a(record) or "") + (b(record) or ""), a, b)
        if shape == 5:
            return strict("text", "replace({}, 'a', 'bb')", lambda it: it.replace("a", "bb"), b)
        if shape == 6:
            size = self.random.randint(0, 4)
            return strict("text", f"left({{}}, {size})", lambda it: it[:size], b)
        if shape == 7:
            nth = self.random.randint(1, 3)

            def part(it):
                parts = it.split(" ")
                return parts[nth - 1] if nth <= len(parts) else ""

            return strict("text", f"split_part({{}}, ' ', {nth})", part, a)
        if shape == 8:
            return strict("text", "cast({} as text)", lambda it: str(it).lower(), self.of("bool", depth - 1))
        return self._chosen("text", a, b, depth)

    def _time(self, depth):
        a = self.column("time")
        shape = self.random.randrange(5)
        if shape == 0:
            unit, size = self.random.choice([("hour", HOUR), ("minute", HOUR // 60), ("second", HOUR // 3600)])
            return strict("time", f"date_trunc('{unit}', {{}})", lambda it: it // size * size, a)
        if shape == 1:
            hours = self.random.randint(1, 30)
            return strict("time", f"({{}} + interval '{hours} hours')", lambda it: it + hours * HOUR, a)
        if shape == 2 and depth > 0:
            return self._chosen("time", a, self.column("time"), depth)
        return a

    def _bool(self, depth):
        if depth <= 0:
            return self.leaf("bool")
        shape = self.random.randrange(14)
        if shape < 5:
            sign = self.random.choice(list(COMPARED))
            kind = self.random.choice(["int", "float", "text"] + ["time"] * ("time" in self.columns.values()))
            return strict("bool", f"({{}} {sign} {{}})", COMPARED[sign], self.column(kind), self.of(kind, depth - 1))
        a, b = self.of("bool", depth - 1), self.of("bool", depth - 1)
        if shape == 5:
            return loose("bool", "({} and {})", connected(a, b, False), a, b)
        if shape == 6:
            return loose("bool", "({} or {})", connected(a, b, True), a, b)
        if shape == 7:
            return strict("bool", "(not {})", lambda it: not it, a)
        kind = self.random.choice(["int", "text", "float"])
        x, y = self.column(kind), self.of(kind, depth - 1)
        if shape == 8:
            no = self.random.choice(["", "not "])
            return loose("bool", f"({{}} is {no}null)", lambda record: (y(record) is None) == (no == ""), y)
        if shape == 9:
            return loose("bool", "({} is distinct from {})", lambda record: _distinct(x(record), y(record)), x, y)
        if shape == 10:
            pattern = self.random.choice(["a%", "%b", "%a%", "_", "_b%", "%", "a_c", "x y", ""])
            return strict("bool", f"({{}} like '{pattern}')", lambda it: like(it, pattern), self.column("text"))
        if shape == 11:
            low, high = self.constant(kind), self.constant(kind)
            inside = loose("bool", "({} between {} and {})", None, x, low, high)
            more, less = strict("bool", "", COMPARED[">="], x, low), strict("bool", "", COMPARED["<="], x, high)
            inside.value = connected(more, less, False)
            return inside
        if shape == 12:
            kind = self.random.choice(["int", "text"])
            x, listed = self.column(kind), [self.constant(kind) for _ in range(3)]
            values = [it({}) for it in listed]
            return strict("bool", f"({{}} in ({', '.join(it.sql for it in listed)}))", lambda it: it in values, x)
        return self._chosen("bool", self.column("bool"), b, depth)

    def _list(self, depth):
        """A list of texts, for `flat_map`."""
        a = self.column("text")
        if self.random.random() < 0.5:
            # An empty text gives an empty list in one engine and a list of it in another.
            def parts(it):
                if it == "":
                    raise Open
                return it.split(" ")

            return strict("list", "string_to_array({}, ' ')", parts, a)
        b = self.of("text", depth - 1)
        return loose("list", "make_array({}, {}, {})", lambda record: [a(record), b(record), a(record)], a, b, a)


def _most(a, b, most):
    def value(record):
        values = [it for it in (a(record), b(record)) if it is not None]
        return most(values) if values else None

    return value


def _distinct(a, b):
    if a is None or b is None:
        return a is not b
    return rank(a) != rank(b)
