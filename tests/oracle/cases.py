"""How a case of the catalogue is written: an expression, the types of its arguments, and who knows the answer.

`{a}`, `{b}` and `{c}` stand for the arguments. Types are names of `edges.TYPES`: `"i64 f64|d4_1"` is `i64`
with `d4_1` and `f64` with `d4_1`."""

from dataclasses import dataclass
from itertools import product

WHOLE = "i8 i16 i32 i64 u8 u16 u32 u64"
DECIMAL = "d2_1 d4_1 d18_4 d20_2 d38_0 d38_10 d38_38"
FLOAT = "f32 f64"
NUMBER = f"{WHOLE} {DECIMAL} {FLOAT}"
MOMENT = "ts ts_s ts_ms ts_ns tz"
DAY = f"{MOMENT} date"


@dataclass(frozen=True)
class Case:
    """One expression over one table of edges."""

    ours: str
    theirs: str
    types: tuple
    engine: str = "postgres"
    lists: bool = False
    about: float = 0.0
    digits: bool = False
    kind: str | None = None

    @property
    def name(self):
        return self.ours.format(**dict(zip("abc", self.types)))

    @property
    def table(self):
        return {0: "one", 1: "one", 2: "two", 3: "three"}[len(self.types)]

    def columns(self):
        return {argument: f"{argument}_{kind}" for argument, kind in zip("abc", self.types)}

    def sql(self, **constants):
        """The expression for the binary, with some arguments as constants."""
        return self.ours.format(**{**self.columns(), **constants})

    def reference(self):
        return self.theirs.format(**self.columns())


class Cases:
    """What a file of cases collects."""

    def __init__(self):
        self.all = []

    def __call__(self, ours, types="", theirs=None, **how):
        """A case for each combination of types."""
        places = [it.split() for it in types.split("|")] if types else []
        for combination in product(*places):
            self.all.append(Case(ours, ours if theirs is None else theirs, combination, **how))

    def same_types(self, ours, types, theirs=None, **how):
        """A case for each type, which all arguments have."""
        count = len({it for it in "abc" if "{" + it + "}" in ours})
        for kind in types.split():
            self.all.append(Case(ours, ours if theirs is None else theirs, (kind,) * count, **how))
