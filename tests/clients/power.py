"""A file system in a file, whose power can be cut: what was not synced is gone, renames and mapped pages included.

The process is stopped, the file system is shut down without writing anything, the process is killed, and the file
system is mounted again, which replays its journal. Needs root and loop devices."""

import os
import shutil
import subprocess

KINDS = {
    # Nothing is to reach the disk by itself between syncs.
    "ext4": (["mkfs.ext4", "-q", "-F"], "commit=300"),
    "xfs": (["mkfs.xfs", "-q", "-f"], "defaults"),
}
BYTES = 3 << 30


def missing():
    """Why there can be no such file system here; None if there can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    tools = [it for it in ("losetup", "mount", "xfs_io", "mkfs.ext4", "mkfs.xfs") if not shutil.which(it)]
    if tools:
        return f"not installed: {', '.join(tools)}"
    if subprocess.run(["losetup", "-f"], capture_output=True).returncode:
        return "there are no loop devices"
    return None


class Disk:
    def __init__(self, folder, kind):
        make, self.options = KINDS[kind]
        self.image, self.place = folder / "disk.img", folder / "disk"
        self.place.mkdir(parents=True)
        with open(self.image, "wb") as image:
            image.truncate(BYTES)
        subprocess.run([*make, self.image], check=True)
        self.device = subprocess.run(["losetup", "--find", "--show", self.image], check=True, capture_output=True, text=True).stdout.strip()
        self._mount()

    def _mount(self):
        subprocess.run(["mount", "-o", self.options, self.device, self.place], check=True)

    def cut(self, broker):
        """Cuts the power of the disk and of the broker on it; the disk is there again afterwards."""
        # A file system that is shut down tells who runs on that bytes are synced which are not: the broker must
        # stand still first, or it shows to clients what no machine without power could.
        broker.pause()
        subprocess.run(["xfs_io", "-x", "-c", "shutdown", self.place], check=True)
        broker.kill()
        subprocess.run(["umount", self.place], check=True)
        self._mount()

    def remove(self):
        subprocess.run(["umount", self.place], check=False, capture_output=True)
        subprocess.run(["losetup", "-d", self.device], check=False)
        self.image.unlink(missing_ok=True)
