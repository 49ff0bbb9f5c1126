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
