#!/usr/bin/env python3
"""make-corpus.py OUT_FILE [MIB]: one text file for word counts, from text found on this machine.

Normalised so that splitting at single spaces gives the same words to every engine: lower case, only [a-z0-9_' ],
single spaces, no empty line. OUT_FILE.json describes it: bytes, lines, words, distinct words, the commonest words.
"""
import gzip
import hashlib
import json
import os
import re
import sys
import sysconfig
from collections import Counter
from glob import glob

OTHER = re.compile(r"[^a-z0-9_']+")
NOT_TEXT = (".png", ".svg", ".pdf", ".js", ".jar")


def files():
    std = sysconfig.get_paths()["stdlib"]
    yield from sorted(glob("/usr/share/common-licenses/*"))
    yield from sorted(glob("/usr/share/doc/**/*", recursive=True))
    yield from sorted(f for f in glob(std + "/**/*.py", recursive=True) if "site-packages" not in f)
    yield from sorted(glob("/usr/share/perl/**/*.p[lm]", recursive=True))


def lines():
    for name in files():
        if not os.path.isfile(name) or name.endswith(NOT_TEXT):
            continue
        try:
            with gzip.open(name) if name.endswith(".gz") else open(name, "rb") as f:
                text = f.read().decode("utf-8")
        except (OSError, UnicodeDecodeError, EOFError):
            continue
        for line in text.lower().splitlines():
            words = OTHER.sub(" ", line).split()
            if words:
                yield words


def main(out, mib="32"):
    target = int(float(mib) * (1 << 20))
    size = words = count = 0
    top, digest = Counter(), hashlib.sha256()
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out + ".part", "wb") as f:
        for line in lines():
            data = (" ".join(line) + "\n").encode()
            f.write(data)
            digest.update(data)
            size, words, count = size + len(data), words + len(line), count + 1
            top.update(line)
            if size >= target:
                break
    os.replace(out + ".part", out)
    info = {"file": os.path.basename(out), "bytes": size, "lines": count, "words": words, "distinct": len(top),
            "top": top.most_common(3), "sha256": digest.hexdigest()}
    with open(out + ".json", "w") as f:
        json.dump(info, f)
    print(json.dumps(info))


if __name__ == "__main__":
    main(*sys.argv[1:])
