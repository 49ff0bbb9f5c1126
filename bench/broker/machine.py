"""CPU time of the broker, of a client and of everybody else while a command runs."""

import mmap
import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Run:
    code: int
    out: str
    errors: str
    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float
    others_cores: float


def busy_seconds():
    """CPU time of the whole machine that was not idle, with what a hypervisor took."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, soft, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / TICKS


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_for_quiet(busy_max, seconds):
    """Waits for a second in which nobody used more than `busy_max` cores, the idle broker included; not for ever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began, before = time.monotonic(), busy_seconds()
        time.sleep(1)
        if (busy_seconds() - before) / (time.monotonic() - began) <= busy_max:
            return


def warm_memory(byte_count):
    """Takes memory, touches it and gives it back, so that a hypervisor that lends it has lent it before the run.

    Else the first write to a page costs whoever happens to be first several times what the write itself does."""
    if byte_count:
        with mmap.mmap(-1, byte_count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            for at in range(0, byte_count, mmap.PAGESIZE):
                memory[at] = 1


def run(line, broker, cpus, patience):
    """Runs a client pinned to `cpus` beside a broker."""
    line = ["taskset", "-c", cpus, *line]
    before = time.monotonic(), broker.cpu_seconds(), children_seconds(), busy_seconds()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, errors = process.communicate(timeout=patience)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        errors += f"\nno end after {patience} s"
    after = time.monotonic(), broker.cpu_seconds(), children_seconds(), busy_seconds()
    wall, ours, client, machine = (late - early for early, late in zip(before, after))
    return Run(process.returncode, out, errors, wall, ours, client, max(0.0, machine - ours - client) / wall)
