"""Where the binary differs from the engines that it is compared with, and why: `differences.toml`.

An entry has a `title`, a reason `why`, and says which differences it is about:

- `cases`: patterns of names of cases, as `date_part('epoch', *)`; left out, all of them
- `ours`, `theirs`: patterns of what either gives: a value as text, `null`, `none: REASON` or `refused: REASON`
- `arguments`: a pattern of the arguments, as `(1, null)`
- `rule`: one of RULES, which looks at both

Each difference must be in an entry, and each entry must be of a difference. `python3 tests/oracle/differences.py`
writes the page that shows them to users."""

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import comparison

FILE = Path(__file__).with_name("differences.toml")
PAGE = Path(__file__).resolve().parents[2] / "docs/sql-differences.md"
HEAD = """# SQL here and in PostgreSQL

Expressions give what PostgreSQL gives, but for what is listed here.
Where PostgreSQL has no such function, they are compared with DuckDB.
`make oracle` calls every function, operator and cast with values at the edges of their types, and fails at a difference that is not listed and at one that is no longer there.
This page is written by `python3 tests/oracle/differences.py` from `tests/oracle/differences.toml`.

| what | why |
| --- | --- |
"""
BEYOND = re.compile(r"out of range|division by zero|logarithm|negative number|overflow|underflow|zero raised|complex result", re.I)


def beyond_the_widest_decimal(it):
    """The number needs more digits than the widest decimal has room for."""
    if not it.ours.error or it.ours.error.startswith("refused: "):
        return False
    numbers = comparison.plain(it.their_kind) in ("numeric", "decimal") and it.theirs.value is not None
    return numbers and not comparison.has_room(it.our_kind, it.theirs.value)


def infinite_or_nothing(it):
    """Floats by IEEE 754: the server says that there is no value, or too large or too small a one."""
    return it.our_kind.startswith("Float") and it.ours.error is None and it.ours.value in ("inf", "-inf", "NaN", "0.0", "-0.0") and bool(BEYOND.search(it.theirs.error or ""))


RULES = {it.__name__: it for it in (beyond_the_widest_decimal, infinite_or_nothing)}


class Difference:
    """One row of one case of which the two say something else."""

    def __init__(self, case, form, arguments, ours, theirs, our_kind, their_kind):
        self.case, self.form, self.arguments = case, form, arguments
        self.ours, self.theirs, self.our_kind, self.their_kind = ours, theirs, our_kind, their_kind

    def __str__(self):
        return f"{self.case.name} [{self.form}] {self.arguments}: {words(self.ours)} ({self.our_kind}), {self.case.engine}: {words(self.theirs)} ({self.their_kind})"


def words(result):
    if result.error is not None:
        return result.error if result.error.startswith("refused: ") else f"none: {result.error}"
    return "null" if result.value is None else str(result.value)


class Entry:
    """What one entry of the file says."""

    def __init__(self, said):
        self.title, self.why = said["title"], said["why"]
        self.cases = said.get("cases", ["*"])
        self.patterns = {name: re.compile(said[name], re.S) for name in ("ours", "theirs", "arguments") if name in said}
        self.rule = RULES[said["rule"]] if "rule" in said else None
        unknown = set(said) - {"title", "why", "cases", "ours", "theirs", "arguments", "rule"}
        assert not unknown, f"{FILE.name}: {self.title}: {unknown}"
        self.used = dict.fromkeys(self.cases, 0)

    def takes(self, it):
        matched = [pattern for pattern in self.cases if fnmatchcase(it.case.name, pattern.replace("[", "[[]"))]
        if not matched or (self.rule and not self.rule(it)):
            return False
        said = {"ours": words(it.ours), "theirs": words(it.theirs), "arguments": it.arguments}
        if not all(pattern.search(said[name]) for name, pattern in self.patterns.items()):
            return False
        for pattern in matched:
            self.used[pattern] += 1
        return True


def read():
    return [Entry(it) for it in tomllib.loads(FILE.read_text(encoding="utf-8"))["difference"]]


def page():
    """What the documents say of all entries."""
    rows = [f"| {it.title} | {it.why} |\n".replace("||", r"\|\|") for it in read()]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
