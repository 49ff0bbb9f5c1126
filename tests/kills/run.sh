#!/usr/bin/env bash
# Random jobs and nodes that are killed (SIGKILL) again and again: their output is that of undisturbed runs.
# usage: tests/kills/run.sh [pytest arguments]
#   TIDEMILL_BIN    the binary under test (default: a debug build of this checkout)
#   TIDEMILL_VENV   the Python environment, that of tests/oracle (default: target/oracle-venv)
#   KILLS_SEEDS     FROM..TO: these seeds, but TO itself (default: a few for each test)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh

venv="${TIDEMILL_VENV:-target/oracle-venv}"
environment "$venv" "$here/../oracle/requirements.txt"

binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
