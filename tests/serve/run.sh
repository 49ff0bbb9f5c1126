#!/usr/bin/env bash
# `tidemill serve` as a process: starting, stopping, settings, HTTP, and real clients of InfluxDB.
# usage: tests/serve/run.sh [pytest arguments]
#   TIDEMILL_BIN    the binary under test (default: a debug build of this checkout)
#   TIDEMILL_SERVE  the Python environment (default: target/serve-venv)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh

# For disks that fail.
if ! command -v strace >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  packages strace
fi

venv="${TIDEMILL_SERVE:-target/serve-venv}"
environment "$venv" "$here/requirements.txt"

binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
