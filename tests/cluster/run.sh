#!/usr/bin/env bash
# Clusters of real nodes on this machine, with voters and with a real etcd: they come, go, are killed and paused.
# usage: tests/cluster/run.sh [pytest arguments]
#   TIDEMILL_BIN      the binary under test (default: a debug build of this checkout)
#   TIDEMILL_CLUSTER  the Python environment (default: target/cluster-venv)
#   ETCD              the etcd to use (default: that of PATH; installed if this is root and there is apt-get)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh

if [ -z "${ETCD:-}" ] && ! command -v etcd >/dev/null; then
  packages --no-install-recommends etcd-server || { echo "tests/cluster: install etcd (Debian: etcd-server), or set ETCD to its program" >&2; exit 1; }
fi
export ETCD="${ETCD:-$(command -v etcd)}"

venv="${TIDEMILL_CLUSTER:-target/cluster-venv}"
environment "$venv" "$here/requirements.txt"

binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
