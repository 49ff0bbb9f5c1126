"""A random job that is killed at random moments leaves the bytes of an undisturbed run."""

import random
import time

from jobs import Job
from runs import Run, same

ROUNDS_MAX = 20


def test_the_same_bytes_after_kills(seed, kept, done, kills_min):
    with kept() as folder:
        job = Job(seed)
        job.write(folder / "inputs")
        done["jobs"] += 1
        undisturbed = Run(job, folder / "undisturbed")
        began = time.monotonic()
        undisturbed.life("--threads", "2")
        assert undisturbed.ended(), "the undisturbed run did not end"
        seconds = time.monotonic() - began

        chance, kills = random.Random(seed), 0
        for number in range(ROUNDS_MAX):
            killed = Run(job, folder / f"killed_{number}")
            kills += killed.through(chance, seconds, most=kills_min + 3, done=done)
            same(killed.folder, killed.output(), undisturbed.output())
            if kills >= kills_min:
                return
            # It was too quick for that: it begins anew, and is killed sooner.
            seconds *= 0.7
        raise AssertionError(f"{kills} kills in {ROUNDS_MAX} rounds")
