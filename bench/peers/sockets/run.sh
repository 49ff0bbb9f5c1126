#!/usr/bin/env bash
# ./run.sh relay SIZE SECS [warmup=S] [buffer=BYTES] [socket=BYTES] [low=BYTES] [congestion=NAME]
#      no engine: what two processes and their sockets cost by themselves
# ./run.sh serve FILE GB [how=read|sendfile|memory] [buffer=BYTES] [congestion=NAME]
#      no broker: what sending a file to a client costs by itself
set -euo pipefail
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
. "$DIR/../common/env.sh"
[[ "${1:-}" =~ ^(relay|serve)$ ]] || { sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
B="$PEERS_HOME/sockets"; mkdir -p "$B"
[ "$B/$1" -nt "$DIR/$1.c" ] || "${CC:-cc}" -O3 -march=native -std=gnu17 -Wall -Wextra -pthread -o "$B/$1" "$DIR/$1.c" >&2
exec "$B/$1" "${@:2}"
