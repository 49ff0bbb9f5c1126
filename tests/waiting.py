"""Waiting for what comes in its own time."""

import time


def wait(condition, seconds, what):
    """Waits until `condition()` gives something true, and gives that."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.01)
    return found
