"""The checks of a history can fail: each is given one in which just that went wrong."""

import pytest

from history import History, Reading, Send


def history(sends=None, readings=None, last=None, outcomes=None):
    sends = sends or [Send("p", i, f"v{i}", 0, i) for i in range(4)]
    last = last or [Reading("last", it.partition, it.offset, it.value) for it in sends if it.offset is not None]
    readings = readings if readings is not None else [it._replace(reader="r") for it in last]
    return History(sends, readings, last, outcomes)


def test_a_good_history_passes():
    assert history().offences() == []


SENDS = [Send("p", i, f"v{i}", 0, i) for i in range(4)]
LAST = [Reading("last", 0, i, f"v{i}") for i in range(4)]


def bad_histories():
    yield "lost", history(last=LAST[:2] + LAST[3:])
    yield "inconsistent", history(readings=[it._replace(reader="r", value="x" if it.offset == 2 else it.value) for it in LAST])
    yield "inconsistent", history(sends=SENDS[:3] + [SENDS[3]._replace(offset=2)], last=LAST)
    yield "duplicates", history(last=[*LAST, Reading("last", 0, 4, "v1")])
    yield "polls_skip", history(readings=[it._replace(reader="r") for it in LAST if it.offset != 1])
    yield "polls_skip", history(readings=[it._replace(reader="r") for it in [*LAST, LAST[2]]])
    yield "sends_reordered", history(sends=[SENDS[0], SENDS[1]._replace(number=2), SENDS[2]._replace(number=1), SENDS[3]])
    yield "unseen", history(readings=[it._replace(reader="r") for it in LAST[:3]])
    parts = [it._replace(transaction="t") for it in SENDS]
    yield "aborted_reads", history(sends=parts, last=LAST, outcomes={"t": "aborted"})
    yield "torn", history(sends=parts, last=LAST[:2], outcomes={"t": "unknown"})


@pytest.mark.parametrize("check, found", bad_histories())
def test_what_is_wrong_is_found(check, found):
    assert check in {it.split(":")[0] for it in found.offences()}, found.offences()
