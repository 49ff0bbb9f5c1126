#!/usr/bin/env bash
# `tidemill serve` as a process: starting, stopping, settings, HTTP, and real clients of InfluxDB.
# usage: tests/serve/run.sh [pytest arguments]
#   TIDEMILL_BIN    the binary under test (default: a debug build of this checkout)
#   TIDEMILL_SERVE  the Python environment (default: target/serve-venv)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."

# For disks that fail.
if ! command -v strace >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq strace >/dev/null
fi

venv="${TIDEMILL_SERVE:-target/serve-venv}"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
if ! cmp -s "$here/requirements.txt" "$venv/.requirements"; then
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/.requirements"
fi

if [ -z "${TIDEMILL_BIN:-}" ]; then
  cargo build --locked -p tidemill
  TIDEMILL_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/tidemill"
fi
export TIDEMILL_BIN
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
