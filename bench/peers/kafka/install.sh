#!/usr/bin/env bash
# Puts the jars of an Apache Kafka broker under $PEERS_HOME/kafka/VERSION/libs and prints that folder.
# Needs a JDK 17 and Maven; does nothing when it was done before.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
version="$(sed -n 's:.*<engine.version>\(.*\)</engine.version>.*:\1:p' "$here/pom.xml")"
libs="${PEERS_HOME:-$HOME/.cache/peers}/kafka/$version/libs"
if [ ! -e "$libs/.complete" ]; then
  mkdir -p "$libs"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$libs" >&2
  touch "$libs/.complete"
fi
printf '%s\n' "$libs"
