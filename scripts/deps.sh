#!/bin/sh
# deps.sh SET...: installs the missing Debian/Ubuntu packages of the sets. Uses sudo when not root. Without root and sudo,
# prints the command to run and fails. INFERPROF_NO_DEPS=1 skips the check, for systems with other package managers.
set -eu
[ "${INFERPROF_NO_DEPS:-0}" = 1 ] && exit 0

packages() {
    case $1 in
    build) echo gcc g++ make libc6-dev libzstd-dev zlib1g-dev libjansson-dev libpng-dev libjpeg-dev libpcre2-dev libyaml-dev libsqlite3-dev libutf8proc-dev libpq-dev libmicrohttpd-dev libcurl4-gnutls-dev ;;
    test) echo libcmocka-dev postgresql python3 python3-venv python3-jsonschema groff-base locales fish openmpi-bin ;;
    browser) echo chromium ;;
    dist) echo patchelf ;;
    bench) echo wrk ;;
    proxy) echo nginx-light openssl curl systemd ;;
    packages) echo lintian dpkg-dev python3-venv python3-pandas python3-nbconvert python3-ipykernel ;;
    oldroot) echo debootstrap ;;
    lint) echo clang-format cppcheck shellcheck ;;
    fuzz) echo clang "$(fuzz_runtime)" ;;
    *) echo "deps.sh: no such set: $1" >&2; exit 2 ;;
    esac
}

# The package with libFuzzer and the sanitizers has clang's version in its name.
fuzz_runtime() {
    v=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    echo "libclang-rt-${v:-14}-dev"
}

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "note: not a Debian or Ubuntu system: install the libraries listed in scripts/deps.sh by hand" >&2
    exit 0
fi
missing=
for set in "$@"; do
    for p in $(packages "$set"); do
        dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
    done
done
[ -z "$missing" ] && exit 0
echo "installing missing packages:$missing" >&2
root=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then root=sudo
    else
        echo "not root, and no sudo. As root, run:" >&2
        echo "    apt-get update && apt-get install -y$missing" >&2
        exit 1
    fi
fi
export DEBIAN_FRONTEND=noninteractive
wait='-o DPkg::Lock::Timeout=300' # another process may hold the dpkg lock
# shellcheck disable=SC2086
{ $root apt-get $wait install -y -qq $missing >/dev/null 2>&1 ||
  { $root apt-get $wait update -qq && $root apt-get $wait install -y -qq $missing >/dev/null; }; } || {
    echo "installing packages failed. Run by hand: $root apt-get update && $root apt-get install -y$missing" >&2
    exit 1
}
