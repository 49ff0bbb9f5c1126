#!/usr/bin/env bash
# Load clients that know no broker in particular, under $PEERS_HOME/clients/bin: rdkafka_performance (librdkafka, built
# from the source that the crate rdkafka-sys carries), latency (franz-go) and the classes of Latency.java beside Kafka's jars.
# Needs cargo, a C compiler, make, python3, go and a JDK 17. Prints the folder.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
home="${PEERS_HOME:-$HOME/.cache/peers}/clients"
mkdir -p "$home/bin"
if [ ! -x "$home/bin/rdkafka_performance" ]; then
  work="$home/librdkafka"
  rm -rf "$work" && mkdir -p "$work/crate/src"
  printf '[package]\nname = "crate"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\nrdkafka-sys = "=4.10.0"\n' > "$work/crate/Cargo.toml"
  : > "$work/crate/src/lib.rs"
  manifest="$(cd "$work/crate" && cargo metadata -q --format-version 1 | python3 -c '
import json, sys
print(next(it["manifest_path"] for it in json.load(sys.stdin)["packages"] if it["name"] == "rdkafka-sys"))')"
  cp -r "$(dirname "$manifest")/librdkafka" "$work/source"
  (
    cd "$work/source"
    chmod +x configure lds-gen.py
    bash ./configure --disable-gssapi --disable-curl
    make -C src -j2 librdkafka.a
    make -C examples rdkafka_performance
  ) > "$work/build.log" 2>&1 || { tail -20 "$work/build.log" >&2; exit 1; }
  cp "$work/source/examples/rdkafka_performance" "$home/bin/"
fi
(cd "$here/latency" && go build -o "$home/bin/latency" .)
libs="$("$here/../kafka/install.sh")"
if [ ! -e "$home/latency-java/Latency.class" ] || [ "$here/Latency.java" -nt "$home/latency-java/Latency.class" ]; then
  mkdir -p "$home/latency-java"
  javac -nowarn -d "$home/latency-java" -cp "$libs/*" "$here/Latency.java"
fi
printf '%s\n' "$home"
