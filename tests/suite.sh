# What every suite here needs; sourced by its run.sh, in the folder of the checkout.

# environment FOLDER REQUIREMENTS: a Python environment with these requirements.
environment() {
  [ -x "$1/bin/python" ] || python3 -m venv "$1"
  if ! cmp -s "$2" "$1/.requirements"; then
    "$1/bin/python" -m pip install -q --disable-pip-version-check -r "$2"
    cp "$2" "$1/.requirements"
  fi
}

# packages NAME…: installs Debian packages, one suite at a time; fails if this is not root or there is no
# apt-get.
packages() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  (
    flock 9
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
  ) 9>"${TMPDIR:-/tmp}/tidemill-packages.lock"
}

# binary: sets TIDEMILL_BIN to a debug build of this checkout, if it is not set.
binary() {
  if [ -z "${TIDEMILL_BIN:-}" ]; then
    cargo build --locked -p tidemill
    TIDEMILL_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/tidemill"
  fi
  export TIDEMILL_BIN
}

# postgres_server: sets POSTGRES_BIN to the folder of a PostgreSQL server's programs, if it is not set;
# installs the server if it is not there.
postgres_server() {
  newest() { find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -1; }
  if [ -z "${POSTGRES_BIN:-}" ] && [ -z "$(newest)" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      # Only the programs are wanted: no cluster of the system's own.
      mkdir -p /etc/postgresql-common/createcluster.d
      echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/none.conf
    fi
    packages postgresql || {
      echo "tests: there is no PostgreSQL server: install one, or set POSTGRES_BIN to the folder of its programs" >&2
      exit 1
    }
  fi
  export POSTGRES_BIN="${POSTGRES_BIN:-$(dirname "$(newest)")}"
}
