"""Whether two engines mean the same value, however each writes it."""

import json
import math
import re
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

FLOATS = {"real", "double precision", "float", "double"}
NUMBERS = {"smallint", "integer", "bigint", "numeric", "oid", "tinyint", "utinyint", "usmallint", "uinteger", "ubigint", "hugeint", "uhugeint", "decimal"}
TIMES = {"timestamp without time zone", "timestamp with time zone", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "date"}
DAY_US = 86_400_000_000
EPOCH_DAY = date(1970, 1, 1).toordinal()
UNITS = {"year": 12, "mon": 1, "month": 1, "day": 1, "hour": 3_600_000_000, "min": 60_000_000, "sec": 1_000_000}


def plain(kind):
    """A type's name, without its digits."""
    return re.sub(r"\(.*\)", "", kind).strip().lower()


def same(ours, theirs, kind, about=0.0, digits=False):
    """Whether two values, of which the second is of a type in its engine's words, are one.

    Floats may differ by a part of `about`, and in the sign of a zero then; with `digits`, numbers only by the digits that one has more."""
    if ours is None or theirs is None:
        return ours is theirs
    of = plain(kind)
    if of.endswith("[]") or not isinstance(theirs, str):
        return listed(ours, about) == listed(theirs, about)
    if of == "boolean":
        return ours == {"t": "true", "f": "false"}.get(theirs, theirs)
    if of in FLOATS:
        return of_floats(ours, theirs, about or (1e-6 if of in ("real", "float") else 0.0))
    if of in NUMBERS:
        return of_numbers(ours, theirs, about, digits)
    if of == "microseconds":
        return whole_micros(ours) == moment(theirs)
    if of in TIMES:
        return moment(ours) == moment(theirs)
    if of.startswith("time"):
        return clock(ours) == clock(theirs)
    if of == "span":
        return span(ours) == span(theirs)
    if of == "interval":
        return length(ours) == length(theirs)
    if of in ("bytea", "blob"):
        return bytes_of(ours) == bytes_of(theirs)
    return ours == theirs


def listed(value, about):
    """As JSON has it, which has no NaN and no infinity."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return [listed(it, about) for it in value]
    if isinstance(value, dict):
        return {key: listed(it, about) for key, it in value.items()}
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.12g}") if about else value + 0.0
    return value


def of_floats(ours, theirs, about):
    words = {"infinity": "inf", "-infinity": "-inf", "+infinity": "inf"}
    try:
        a, b = (float(words.get(it.lower(), it.lower())) for it in (ours, theirs))
    except ValueError:
        return False
    if a != a or b != b:
        return a != a and b != b
    if a == b:
        return about > 0 or math.copysign(1, a) == math.copysign(1, b)
    return not math.isinf(a) and not math.isinf(b) and math.isclose(a, b, rel_tol=about, abs_tol=about * 1e-3)


def of_numbers(ours, theirs, about, digits):
    try:
        a, b = Decimal(ours), Decimal(theirs)
    except InvalidOperation:
        return ours.lower() == theirs.lower()
    if not (a.is_finite() and b.is_finite()):
        return str(a).lower() == str(b).lower()
    if about:
        return of_floats(str(float(a)), str(float(b)), about) or float(a) == float(b)
    if a == b or not digits:
        return a == b
    with localcontext() as context:
        context.prec = 200
        fewer = max(a.as_tuple().exponent, b.as_tuple().exponent)
        one = Decimal(1).scaleb(fewer)
        return a.quantize(one, ROUND_HALF_UP) == b.quantize(one, ROUND_HALF_UP)


def moment(text):
    """Days since 1970 and microseconds of the day, in UTC; before the year 1 PostgreSQL counts years back."""
    found = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d(?:\.\d+)?))?(?:Z|([+-])(\d\d)(?::(\d\d))?)?( BC)?", text)
    if not found:
        return text
    year, month, day, hour, minute, second, sign, ahead, more, before = found.groups()
    year = 1 - int(year) if before else int(year)
    micros = (int(hour or 0) * 60 + int(minute or 0)) * 60_000_000 + Decimal(second or 0) * 1_000_000
    micros -= (int(ahead or 0) * 60 + int(more or 0)) * 60_000_000 * (-1 if sign == "-" else 1)
    return divmod(days_before(year, int(month), int(day)) * DAY_US + micros, DAY_US)


def whole_micros(text):
    """The same, without what is finer."""
    days, micros = moment(text)
    return days, micros // 1


def days_before(year, month, day):
    """Days since 1970, in any year: 400 years later the calendar is the same."""
    cycles = (year - 1) // 400 if not 1 <= year <= 9999 else 0
    return date(year - cycles * 400, month, day).toordinal() - EPOCH_DAY + cycles * 146_097


def clock(text):
    return text.rstrip("0").rstrip(".") if "." in text else text


def length(text):
    """Months, days and microseconds."""
    found = [0, 0, Decimal(0)]
    if text.startswith("P"):
        dates, _, rest = text[1:].partition("T")
        for number, unit in re.findall(r"(-?[\d.]+)([YMWD])", dates):
            found[1 if unit in "WD" else 0] += int(number) * {"Y": 12, "M": 1, "W": 7, "D": 1}[unit]
        for number, unit in re.findall(r"(-?[\d.]+)([HMS])", rest):
            found[2] += Decimal(number) * {"H": UNITS["hour"], "M": UNITS["min"], "S": UNITS["sec"]}[unit]
        return tuple(found)
    for number, unit in re.findall(r"(-?[\d.]+) (year|month|mon|day|hour|min|sec)s?", text):
        found[0 if unit in ("year", "month", "mon") else 1 if unit == "day" else 2] += Decimal(number) * UNITS[unit]
    clock = re.search(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)$", text)
    if clock:
        sign, hours, minutes, seconds = clock.groups()
        found[2] += (-1 if sign else 1) * (int(hours) * UNITS["hour"] + int(minutes) * UNITS["min"] + Decimal(seconds) * UNITS["sec"])
    return tuple(found)


def bytes_of(text):
    if text.startswith("\\x") and not re.search(r"\\x[0-9a-fA-F]{2}[^0-9a-fA-F]", text):
        return bytes.fromhex(text[2:].replace("\\x", ""))
    return text.encode()


def shown(value):
    return json.dumps(value, ensure_ascii=False, default=str)


def has_room(kind, value):
    """False if a number has more digits before the point than the widest decimals have, of which `kind` is one."""
    if not Decimal(value).is_finite():
        return False
    # Of constants that have no value the type is not known.
    found = re.fullmatch(r"Decimal128\((38), (-?\d+)\)", kind or "Decimal128(38, 0)")
    if not found:
        return True
    with localcontext() as context:
        context.prec = 200
        # Digits behind the point are rounded first, and may carry.
        return abs(Decimal(value)).quantize(Decimal(1).scaleb(-int(found[2])), ROUND_HALF_UP) < Decimal(10) ** (38 - int(found[2]))


def span(text):
    """A difference of times in microseconds: PostgreSQL counts whole days of it apart."""
    months, days, micros = length(text)
    return months, days * 86_400_000_000 + micros
