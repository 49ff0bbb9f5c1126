"""A job that is run, killed and resumed in a folder of its own, and its output."""

import subprocess
import time

from mill import Mill
from node import binary

# Enough for a debug build on a machine that is busy; the same for what hangs.
END_SECONDS = 300
START_SECONDS = 0.05


class Run:
    """A job in a folder of its own."""

    def __init__(self, job, folder):
        self.job, self.folder, self.lives = job, folder, []
        folder.mkdir()
        (folder / "job.yaml").write_text(job.text(), encoding="utf-8")
        self.mill = Mill(binary(), None, folder)

    def begin(self, *more):
        with open(self.folder / "said.txt", "ab") as said:
            command = self.mill.command("--quiet", "--preview", "0", "--data", "data", *more)
            return subprocess.Popen(command, cwd=self.folder, stdout=said, stderr=said)

    def life(self, *more, until=None):
        """One process, until it ends or the moment to kill it comes; whether it was killed."""
        process = self.begin(*more)
        try:
            if until is None:
                process.wait(END_SECONDS)
            else:
                until(process)
        finally:
            process.kill()
            self.code = process.wait()
        assert self.code in (0, -9), f"exit {self.code}, {self.lives}: {self.said()}"
        return self.code == -9

    def ended(self):
        return self.code == 0

    def said(self):
        return (self.folder / "said.txt").read_text(errors="replace")[-3000:]

    def through(self, chance, seconds, most, done):
        """Kills the job at most so often, resumes it each time with other threads, until it ends by itself."""
        kills = 0
        while True:
            more = ["--threads", str(chance.choice([it for it in (1, 2, 3, 4, 6) if it != self._threads()]))]
            if self.lives:
                more.append("--resume")
                done["resumes"] += 1
                if "checkpoint" in self.job.spec and chance.random() < 0.3:
                    more += ["--set", f"checkpoint.recovery={chance.choice(['eager', 'lazy', 'prefetch'])}"]
            moment = self._moment(chance, seconds) if kills < most else None
            self.lives.append(" ".join(more))
            if not self.life(*more, until=moment):
                assert "panicked" not in self.said(), self.said()
                return kills
            kills += 1
            done["kills"] += 1

    def _threads(self):
        return int(self.lives[-1].split()[1]) if self.lives else None

    def _moment(self, chance, seconds):
        """When to kill: at any time, as soon as it has started, or when it has just written something."""
        checkpoints = self.folder / "data" / "checkpoints"
        kinds = ["any", "start", "write"] + ["checkpoint"] * 3 * ("checkpoint" in self.job.spec)
        how = chance.choice(kinds)
        if how in ("any", "start"):
            patience = chance.uniform(0, seconds if how == "any" else START_SECONDS)
            return lambda process: end_or(process, patience)
        places = (self.folder, self.folder / "data") if how == "write" else (checkpoints, checkpoints / "keys")
        changes, patience = chance.choice([1, 2, 5, 10, 20, 50]), chance.choice([0, chance.uniform(0, seconds / 4)])

        def await_both(process):
            await_changes(process, places, changes, seconds)
            end_or(process, patience)

        return await_both

    def output(self):
        """All files of the job's output. Beside them stands only what docs/job.md names."""
        found = {it.name: it.read_bytes() for it in self.folder.iterdir() if it.is_file()}
        for name in ("job.yaml", "said.txt"):
            found.pop(name, None)
        for name in self.job.outputs:
            assert name in found, f"{name} is missing"
            marks = found.pop(f"{name}.tidemill", None)
            assert marks is None or not name.endswith((".arrow", ".parquet")), f"{name} has marks"
        left = set(found) - set(self.job.outputs)
        assert not left, f"left behind: {left}"
        letters = self.folder / "data" / "dead-letter.ndjson"
        if letters.exists():
            found[letters.name] = letters.read_bytes()
        return found


def await_changes(process, places, changes, seconds):
    """Waits until so many changes were seen in folders, or for so long."""
    end, before = time.monotonic() + seconds, files(places)
    while changes and time.monotonic() < end and process.poll() is None:
        if (now := files(places)) != before:
            changes, before = changes - 1, now
        time.sleep(0.0005)


def files(places):
    """What there is in folders, with lengths."""
    found = {}
    for it in (it for folder in places if folder.is_dir() for it in folder.iterdir()):
        try:
            found[it] = it.stat().st_size
        except FileNotFoundError:
            # It was renamed or removed meanwhile.
            found[it] = None
    return found


def end_or(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


def same(folder, found, expected):
    """Fails unless each file has the same bytes."""
    assert set(found) == set(expected), f"files {sorted(found)}, expected {sorted(expected)}"
    for name, wanted in expected.items():
        if found[name] == wanted:
            continue
        common = next((i for i, (a, b) in enumerate(zip(found[name], wanted)) if a != b), min(len(found[name]), len(wanted)))
        raise AssertionError(f"{folder / name} has {len(found[name])} bytes, undisturbed {len(wanted)}; the first {common} are the same")
