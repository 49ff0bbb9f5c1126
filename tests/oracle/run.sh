#!/usr/bin/env bash
# Results of the real binary against DuckDB, on real data; expressions at the edges of their types against
# PostgreSQL; and random jobs against a model in Python.
# usage: tests/oracle/run.sh [pytest arguments]
#   TIDEMILL_BIN    the binary under test (default: a debug build of this checkout)
#   TIDEMILL_VENV   the Python environment (default: target/oracle-venv)
#   TIDEMILL_DATASETS  the folder of the data sets (default: data)
#   ORACLE_ROWS     how many flights are used (default: 60000)
#   POSTGRES_BIN    the folder of a PostgreSQL server's programs (default: the newest in /usr/lib/postgresql)
#   ORACLE_SEEDS    which random jobs are run, FROM..TO, but TO itself (default: 0..40)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh

venv="${TIDEMILL_VENV:-target/oracle-venv}"
environment "$venv" "$here/requirements.txt"

export TIDEMILL_DATASETS="${TIDEMILL_DATASETS:-$PWD/data}"
for file in nycflights.ndjson nycweather.ndjson airlines.csv planes.csv; do
  [ -s "$TIDEMILL_DATASETS/$file" ] && continue
  examples/fetch-data.sh nycflights
  break
done

postgres_server
binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
