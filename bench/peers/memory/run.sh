#!/usr/bin/env bash
# ./run.sh copy SIZE SECS [memory=BYTES] [ahead=BYTES]
#      no engine: what it costs to write each message anew
set -euo pipefail
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
. "$DIR/../common/env.sh"
[[ "${1:-}" == copy ]] || { sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
B="$PEERS_HOME/memory"; mkdir -p "$B"
[ "$B/$1" -nt "$DIR/$1.c" ] || "${CC:-cc}" -O3 -std=gnu17 -Wall -Wextra -o "$B/$1" "$DIR/$1.c" >&2
exec "$B/$1" "${@:2}"
