#!/usr/bin/env bash
# Backends of checkpoints against the servers themselves: the contract in Rust, then jobs that are
# killed, servers that are killed, wrong passwords, foreign owners, damage.
# usage: tests/backends/run.sh [redis] [s3] [hbase] [pytest arguments]   (default: redis s3)
#   TIDEMILL_BIN       the binary under test (default: a debug build of this checkout)
#   TIDEMILL_BACKENDS  the Python environment (default: target/backends-venv)
#   VERSITYGW          an S3 gateway to use (default: that of PATH, else one that `go install` builds)
# Needs: redis-server (installed if this is root and there is apt-get); Go for s3; a JDK and Maven
# for hbase, which downloads some 300 MB once.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh
target="${CARGO_TARGET_DIR:-$PWD/target}"
gateway_version=v1.8.0

die() { echo "tests/backends: $*" >&2; exit 1; }

servers=()
while [[ "${1:-}" =~ ^(redis|s3|hbase)$ ]]; do servers+=("$1"); shift; done
[ ${#servers[@]} -gt 0 ] || servers=(redis s3)
export TIDEMILL_TEST_SERVERS="${servers[*]}"

for server in "${servers[@]}"; do
  case "$server" in
    redis)
      if ! command -v redis-server >/dev/null; then
        packages --no-install-recommends redis-server || die "install redis-server"
      fi ;;
    s3)
      VERSITYGW="${VERSITYGW:-$(command -v versitygw || true)}"
      if [ -z "$VERSITYGW" ]; then
        VERSITYGW="$target/versitygw-$gateway_version/versitygw"
        if [ ! -x "$VERSITYGW" ]; then
          command -v go >/dev/null || die "s3 needs Go, or versitygw in PATH"
          GOBIN="$(dirname "$VERSITYGW")" go install "github.com/versity/versitygw/cmd/versitygw@$gateway_version"
        fi
      fi
      export VERSITYGW ;;
    hbase)
      command -v java >/dev/null && command -v mvn >/dev/null || die "hbase needs a JDK and Maven"
      HBASE_CLASSPATH="$target/hbase-classpath.txt"
      if [ ! -s "$HBASE_CLASSPATH" ] || [ "$here/hbase.xml" -nt "$HBASE_CLASSPATH" ]; then
        mvn -B -q -f "$here/hbase.xml" dependency:build-classpath "-Dmdep.outputFile=$HBASE_CLASSPATH"
      fi
      export HBASE_CLASSPATH ;;
  esac
done

venv="${TIDEMILL_BACKENDS:-target/backends-venv}"
environment "$venv" "$here/requirements.txt"

# Also the contracts that are not run now: nothing else compiles them.
if ! built="$(cargo test --locked -p tidemill-backends --features servers --no-run 2>&1)"; then
  die "$built"
fi
# Lines of SERVER=EXECUTABLE.
TIDEMILL_TEST_CONTRACTS="$(sed -n 's|.*Executable tests/\(.*\)\.rs (\(.*\))|\1=\2|p' <<<"$built")"
export TIDEMILL_TEST_CONTRACTS
binary
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@" "$here"
