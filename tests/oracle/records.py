"""Random records in files: what a source's file says, and the rows that come of it."""

import json
import struct
from datetime import datetime, timedelta, timezone

from expressions import INT_MAX, INT_MIN
from model import ENDED, NEVER, Flow, Row

TEXTS = ["a", "b", "a b", "x y z", "", "ü", "abc", "a,b", 'q"q', "12", "-7", "1.5", "null", "NULL", "NA", " a", "日本", "ß", "it's", "%", "a\\b", "A", "a=b"]
ODD = [0.0, -0.0, 0.1, 1 / 3, 1e300, -1e-300, 5e-324, 2.0**53 + 2, 1.5, -2.5, 123456789.125, 1e21, 1e16, 1e-7, 3.0, 1.7976931348623157e308]
BIG = [INT_MAX, INT_MIN, INT_MAX - 1, 2**53 + 1, -(2**53) - 1, 10**18]
SECOND = 1_000_000
# Where event time begins: also before 1970, where windows are aligned all the same.
STARTS = [0, -3 * 86_400 * SECOND, 1_700_000_000 * SECOND, 4_000_000_000 * SECOND, 951_782_400 * SECOND]


def moment(micros):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


def micros(text):
    """RFC 3339 in UTC, in microseconds."""
    assert text.endswith("Z"), f"not RFC 3339 in UTC: {text!r}"
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


class Values:
    """How one column's values are drawn."""

    def __init__(self, random, kind):
        self.random, self.kind = random, kind
        self.nulls = random.choice([0, 0, 0.1, 0.4])
        self.shape = random.random()
        self.few = random.randint(2, 6)

    def draw(self):
        if self.random.random() < self.nulls:
            return None
        return getattr(self, f"_{self.kind}")()

    def _int(self):
        if self.shape < 0.3:
            return self.random.randrange(self.few)
        if self.shape > 0.85 and self.random.random() < 0.3:
            return self.random.choice(BIG)
        return self.random.randint(-50, 1000)

    def _float(self):
        if self.shape < 0.3:
            return self.random.randint(-40, 40) / 8
        if self.shape > 0.6 and self.random.random() < 0.5:
            return self.random.choice(ODD)
        if self.shape > 0.9 and self.random.random() < 0.2:
            found = struct.unpack("<d", self.random.randbytes(8))[0]
            return found if abs(found) < 1e308 else 0.5
        return self.random.gauss(0, 100)

    def _text(self):
        return self.random.choice(TEXTS[: self.few] if self.shape < 0.4 else TEXTS)

    def _bool(self):
        return self.random.random() < 0.5


class Shape:
    """What the sources of a job share: how many records a cycle takes, when event time begins and how
    fast it goes, the type of the column `k`, and now and then how many records there are."""

    def __init__(self, random, per_cycle, count):
        self.per_cycle, self.count = per_cycle, count
        self.start, self.key = random.choice(STARTS), random.choice(["text", "int", "bool", "float"])
        self.pace = random.choice([SECOND // 10, SECOND, 20 * SECOND, 600 * SECOND])


class Source:
    """A source: its entry in the job, its file, and its rows by cycle."""

    def __init__(self, random, name, folder, shape):
        self.random, self.name, self.refused, self.shape = random, name, 0, shape
        self.format = random.choice(["json", "json", "csv", "csv", "influx", "influx", "text"])
        self.path = folder / f"{name}.{self.format}"
        self.count = shape.count or random.choice([1, 3, 10, 30, 60, 60, 120])
        timed = self.format != "text" and random.random() < 0.85
        self.lateness = shape.pace * random.choice([0, 0, 1, 3, 10, 1000])
        if self.format == "text":
            self.columns, rows = {"text": "text"}, self._lines()
        else:
            self.columns = {"id": "int", "k": shape.key if random.random() < 0.8 else random.choice(["text", "int", "bool", "float"])}
            odd = random.random() < 0.15
            for i, kind in enumerate(random.choices(["int", "float", "text", "bool"], k=random.randint(2, 6))):
                self.columns[("Odd näme-" if odd else "c") + str(i)] = kind
            rows = self._rows(timed)
            {"json": self._json, "csv": self._csv, "influx": self._influx}[self.format](rows, timed)
            if self.format == "influx":
                self.columns |= {"measurement": "text", "time": "time"}
            elif timed:
                self.columns[self.time] = "time"
        self.flow = self._flow(rows, shape.per_cycle, timed)

    def _flow(self, rows, per_cycle, timed):
        cycles = [rows[i : i + per_cycle] for i in range(0, len(rows), per_cycle)]
        if not cycles or len(cycles[-1]) == per_cycle:
            # The end of the file is found out by reading on.
            cycles.append([])
        marks, seen = [], NEVER
        for cycle in cycles[:-1]:
            if timed:
                seen = max([seen, *(row.time for row in cycle)])
            marks.append(seen if seen == NEVER else seen - self.lateness)
        return Flow(self.columns, cycles, [*marks, ENDED], (), timed, named=self.format in ("csv", "text"))

    def _lines(self):
        texts = [self.random.choice(["a b c", "1 2", "x", "", "a  b", "tab\there", "ü ö", "12", "-5 7", '"q" \\', "a,b"]) for _ in range(self.count)]
        end = self.random.choice(["\n", "\n", "\r\n"])
        last = end if not texts[-1] or self.random.random() < 0.8 else ""
        self.path.write_text(end.join(texts) + last, encoding="utf-8", newline="")
        self.entry = {"file": {"path": self.path.name, "format": "text"}}
        return [Row(None, {"text": it}) for it in texts]

    def _rows(self, timed):
        draws = {name: Values(self.random, kind) for name, kind in self.columns.items() if name != "id"}
        pace = self.shape.pace
        jumble = self.random.choice([0, 0, 2, 10, 100]) * pace
        unit = self.random.choice([1000, 1000, 1, SECOND])
        rows, at = [], self.shape.start
        for i in range(self.count):
            at += self.random.choice([0, 1, 1, 2, 5]) * pace
            time = (at - self.random.randint(0, jumble) if self.random.random() < 0.5 else at) // unit * unit
            if self.random.random() < 0.02:
                time -= 50 * pace
            rows.append(Row(time if timed else None, {"id": i, **{name: it.draw() for name, it in draws.items()}}))
        return rows

    def _schema(self, rows):
        """Types that the file alone does not show, and now and then those that it does."""
        named = {}
        for name, kind in self.columns.items():
            values = [row.values[name] for row in rows if row.values[name] is not None]
            shows = {
                "int": bool(values),
                "float": any(it % 1 for it in values) if kind == "float" else False,
                "bool": bool(values),
                "text": any(not it.strip().lower().lstrip("-").replace(".", "").isalnum() for it in values) if kind == "text" else False,
            }[kind]
            if not shows or self.random.random() < 0.3:
                named[name] = {"int": "bigint", "float": "double", "bool": "boolean", "text": "text"}[kind]
        return named

    def _entry(self, schema, **more):
        self.entry = {"file": {"path": self.path.name, "format": self.format, **more}}
        if schema:
            self.entry["file"]["schema"] = schema
        if self.time:
            self.entry["time"] = {"field": self.time}
            if self.lateness:
                self.entry["time"]["lateness"] = f"{self.lateness}us"

    def _moment(self, row, style):
        if style == "ms" and row.time % 1000 == 0:
            number = row.time // 1000
            return number if len(str(number)) != 8 else moment(row.time).isoformat()
        text = moment(row.time).isoformat(timespec="auto")
        if style == "offset":
            return moment(row.time).astimezone(timezone(timedelta(hours=2))).isoformat()
        return {"z": text.replace("+00:00", "Z"), "none": text.replace("+00:00", "")}.get(style, text)

    def _with_time(self, rows, timed):
        """Rows as they are written, with the field of the event time."""
        self.time = self.random.choice(["ts", "at"]) if timed else None
        style = self.random.choice(["ms", "z", "none", "offset"])
        written = []
        for row in rows:
            values = dict(row.values)
            if timed:
                values[self.time] = self._moment(row, style)
                row.values[self.time] = row.time
            written.append(values)
        return written

    def _json(self, rows, timed):
        schema = self._schema(rows)
        lines = []
        for values in self._with_time(rows, timed):
            fields = []
            for name, value in values.items():
                if value is None and self.random.random() < 0.5:
                    continue
                text = json.dumps(value, ensure_ascii=self.random.random() < 0.3)
                if isinstance(value, (int, float)) and not isinstance(value, bool) and schema.get(name) and self.random.random() < 0.1:
                    text = f'"{text}"'
                fields.append(f"{json.dumps(name)}: {text}")
            if self.random.random() < 0.3:
                self.random.shuffle(fields)
            lines.append("{" + ",".join(fields) + "}")
            if self.random.random() < 0.02:
                lines.append(self.random.choice(['{"id": 1', "[1]", '{"id": 1}}', "nonsense"]))
                self.refused += 1
            elif self.random.random() < 0.03:
                lines.append("")
        self._write(lines)
        self._entry(schema)

    def _csv(self, rows, timed):
        schema, written = self._schema(rows), self._with_time(rows, timed)
        sign = self.random.choice([",", ",", ";", "|"])
        headed = self.random.random() < 0.8
        names = list(written[0])
        lines = [sign.join(names)] if headed else []
        for values in written:
            fields = []
            for name in names:
                value = values[name]
                text = "" if value is None else str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)
                if isinstance(value, str) and (value == "" or any(it in value for it in ',;|"\n') or self.random.random() < 0.1):
                    text = '"' + text.replace('"', '""') + '"'
                fields.append(text)
            lines.append(sign.join(fields))
            if self.random.random() < 0.02:
                lines.append(sign.join([*fields, "more"]))
                self.refused += 1
        self._write(lines)
        if not headed:
            named = {"int": "bigint", "float": "double", "bool": "boolean", "text": "text"}
            schema = {name: named[self.columns[name]] if name in self.columns else "timestamp" for name in names}
        more = {} if sign == "," else {"delimiter": sign}
        self._entry(schema, **more, **({} if headed else {"header": False}))

    def _influx(self, rows, timed):
        self.time = "time" if timed else None
        # A tag has no empty value, and no text over several lines.
        tags = [name for name, kind in self.columns.items() if kind == "text" and self.random.random() < 0.5]
        unsigned = {name for name, kind in self.columns.items() if kind == "int" and all((row.values[name] or 0) >= 0 for row in rows)}

        def escaped(text):
            return text.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")

        lines = []
        for row in rows:
            values = row.values
            for name in tags:
                if values[name] is not None and (values[name].strip() == "" or "\\" in values[name] or '"' in values[name]):
                    values[name] = None
            measurement = self.random.choice(["m", "other", "m 2"])
            head = [escaped(measurement)]
            head += [f"{escaped(name)}={escaped(values[name])}" for name in tags if values[name] is not None]
            fields = []
            for name, value in values.items():
                if name in tags or value is None:
                    continue
                if isinstance(value, bool):
                    text = self.random.choice(["t", "T", "true", "True", "TRUE"] if value else ["f", "F", "false", "False", "FALSE"])
                elif isinstance(value, int):
                    text = f"{value}{self.random.choice('iu') if name in unsigned else 'i'}"
                elif isinstance(value, float):
                    text = repr(value)
                else:
                    text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
                fields.append(f"{escaped(name)}={text}")
            line = f"{','.join(head)} {','.join(fields)}"
            if timed:
                line += f" {row.time * 1000 + self.random.choice([0, 0, 1, 999])}"
            lines.append(line)
            values["measurement"] = measurement
            values["time"] = row.time
            if self.random.random() < 0.02:
                lines.append(self.random.choice(["m", "m a=", "m,=b a=1", "m a=1 12x"]))
                self.refused += 1
            elif self.random.random() < 0.03:
                lines.append(self.random.choice(["", "# a remark"]))
        self._write(lines)
        self._entry(self._schema(rows))

    def _write(self, lines):
        end = "\r\n" if self.random.random() < 0.1 else "\n"
        head = "\ufeff" if self.random.random() < 0.05 else ""
        self.path.write_text(head + end.join(lines) + (end if self.random.random() < 0.8 else ""), encoding="utf-8", newline="")
