#!/usr/bin/env bash
# Jobs that write tables of a real PostgreSQL server, which the tests start, crash and cut off.
# usage: tests/postgres/run.sh [pytest arguments]
#   TIDEMILL_BIN       the binary under test (default: a debug build of this checkout)
#   TIDEMILL_POSTGRES  the Python environment (default: target/postgres-venv)
#   POSTGRES_BIN       the folder of the server's programs (default: the newest in /usr/lib/postgresql)
# Installs the server if it is not there (apt, if root), and the client library.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh

postgres_server

venv="${TIDEMILL_POSTGRES:-target/postgres-venv}"
environment "$venv" "$here/requirements.txt"

binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
