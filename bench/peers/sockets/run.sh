#!/usr/bin/env bash
# ./run.sh relay SIZE SECS [warmup=S] [buffer=BYTES] [socket=BYTES] [low=BYTES]
#      no engine: what two processes and their sockets cost by themselves
set -euo pipefail
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
. "$DIR/../common/env.sh"
[ "${1:-}" = relay ] || { echo "usage: run.sh relay SIZE SECS [warmup=S] [buffer=BYTES] [socket=BYTES] [low=BYTES]" >&2; exit 2; }
B="$PEERS_HOME/sockets"; mkdir -p "$B"
[ "$B/relay" -nt "$DIR/relay.c" ] || "${CC:-cc}" -O3 -march=native -std=gnu17 -Wall -Wextra -pthread -o "$B/relay" "$DIR/relay.c" >&2
exec "$B/relay" "${@:2}"
