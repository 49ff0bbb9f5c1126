#!/usr/bin/env bash
# Unmodified Kafka clients against a real broker.
# usage: tests/clients/run.sh [--broker tidemill|kafka] [pytest arguments, such as test_admin.py or -m groups]
#   TIDEMILL_BIN      the binary under test (default: a debug build of this checkout)
#   TIDEMILL_CLIENTS  the Python environment (default: target/clients-venv)
#   PEERS_HOME        where the other clients, and Kafka for --broker kafka, are kept (default: ~/.cache/peers)
# Installs what is not there: confluent-kafka, kafka-python (pip), franz-go (go), kafka-clients (mvn), kafkajs (npm), kcat (apt, if root).
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
source tests/suite.sh
export PEERS_HOME="${PEERS_HOME:-$HOME/.cache/peers}"
home="$PEERS_HOME/clients"
mkdir -p "$home/bin" "$home/java"

missing=()
command -v kcat >/dev/null || missing+=(kcat)
command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v go >/dev/null || missing+=(golang-go)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
# For power cuts, which only root can do.
[ "$(id -u)" != 0 ] || command -v mkfs.xfs >/dev/null || missing+=(xfsprogs)
if [ ${#missing[@]} -gt 0 ]; then
  packages "${missing[@]}" || { echo "tests/clients: please install ${missing[*]}" >&2; exit 1; }
fi

# Of two that come here at once the second waits until the first has set everything up.
exec 9>"$home/set-up.lock"
flock 9

venv="${TIDEMILL_CLIENTS:-target/clients-venv}"
environment "$venv" "$here/requirements.txt"

# Tests of another run may be using the one that is there.
(cd "$here/go" && go build -o "$home/bin/franz-agent.new" . && mv -f "$home/bin/franz-agent.new" "$home/bin/franz-agent")

if ! cmp -s "$here/java/pom.xml" "$home/java/pom.xml"; then
  rm -rf "$home"/java/libs*
  copy=(mvn -q -B -f "$here/java/pom.xml" dependency:copy-dependencies -DincludeScope=runtime)
  "${copy[@]}" "-DoutputDirectory=$home/java/libs"
  "${copy[@]}" -Polder "-DoutputDirectory=$home/java/libs-older"
  cp "$here/java/pom.xml" "$home/java/pom.xml"
fi
if [ ! -e "$home/java/classes/Agent.class" ] || [ -n "$(find "$here/java/src" -newer "$home/java/classes/Agent.class")" ]; then
  rm -rf "$home/java/classes" && mkdir -p "$home/java/classes"
  javac -nowarn -encoding UTF-8 -d "$home/java/classes" -cp "$home/java/libs/*" "$here"/java/src/*.java
fi

if ! cmp -s "$here/node/package-lock.json" "$home/node/installed.json"; then
  rm -rf "$home/node" && mkdir -p "$home/node"
  cp "$here"/node/package*.json "$home/node"
  npm ci --silent --ignore-scripts --no-audit --no-fund --prefix "$home/node"
  cp "$here/node/package-lock.json" "$home/node/installed.json"
fi
exec 9>&-

if [[ " $* " != *" kafka "* ]]; then binary; fi
export TIDEMILL_BIN="$(realpath -m "${TIDEMILL_BIN:-none}")"
python="$(cd "$venv/bin" && pwd)/python"
cd "$here"
exec "$python" -m pytest -q -p no:cacheprovider "$@"
