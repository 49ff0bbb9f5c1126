#!/usr/bin/env bash
# The coordinator's contract against a real etcd, which it starts on free ports of loopback.
# usage: tests/coord/run.sh [arguments of the test program]
#   ETCD   the etcd to use (default: that of PATH)
# Needs: etcd (installed if this is root and there is apt-get).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/suite.sh

die() { echo "tests/coord: $*" >&2; exit 1; }

etcd="${ETCD:-$(command -v etcd || true)}"
if [ -z "$etcd" ]; then
  packages --no-install-recommends etcd-server || die "install etcd (Debian: etcd-server), or set ETCD to its program"
  etcd="$(command -v etcd)"
fi

# Built before etcd starts: its leases are real time.
cargo test --locked -p tidemill-coord --features servers --no-run

folder="$(mktemp -d)"
server=
stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } || true
  rm -rf "$folder"
}
trap stop EXIT

free_ports() {
  python3 - <<'PY'
import socket
sockets = [socket.socket() for _ in range(2)]
for it in sockets:
    it.bind(("127.0.0.1", 0))
print(*(it.getsockname()[1] for it in sockets))
PY
}
read -r clients peers <<<"$(free_ports)"
"$etcd" --name one --data-dir "$folder/data" \
  --listen-client-urls "http://127.0.0.1:$clients" --advertise-client-urls "http://127.0.0.1:$clients" \
  --listen-peer-urls "http://127.0.0.1:$peers" --initial-advertise-peer-urls "http://127.0.0.1:$peers" \
  --initial-cluster "one=http://127.0.0.1:$peers" >"$folder/log" 2>&1 &
server=$!

answers() { python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$clients/health', timeout=1)" 2>/dev/null; }
for _ in $(seq 150); do
  answers && break
  kill -0 "$server" 2>/dev/null || die "etcd ended: $(tail -3 "$folder/log")"
  sleep 0.2
done
answers || die "etcd does not answer within 30 s: $(tail -3 "$folder/log")"

export TIDEMILL_ETCD="http://127.0.0.1:$clients"
cargo test --locked -p tidemill-coord --features servers -- "$@" etcd::
