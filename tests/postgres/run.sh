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

newest() { find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -1; }
if [ -z "${POSTGRES_BIN:-}" ] && [ -z "$(newest)" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Only the programs are wanted: no cluster of the system's own.
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/none.conf
  fi
  packages postgresql || {
    echo "tests/postgres: there is no PostgreSQL server: install one, or set POSTGRES_BIN to the folder of its programs" >&2
    exit 1
  }
fi
export POSTGRES_BIN="${POSTGRES_BIN:-$(dirname "$(newest)")}"

venv="${TIDEMILL_POSTGRES:-target/postgres-venv}"
environment "$venv" "$here/requirements.txt"

binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
