#!/bin/sh
# The wheel in a virtual environment, and the Debian package in a root folder of its own. Environment: VERSION.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/standalone.sh

wheel_tests() {
    wheel=$(ls build/dist/inferprof-"$VERSION"-py3-none-manylinux_*_x86_64.whl)
    # Debian's Python, because pandas and nbconvert are Debian packages here.
    /usr/bin/python3 -m venv --system-site-packages --without-pip "$work/venv" || exit 1
    /usr/bin/python3 tests/packages/install_wheel.py "$wheel" "$work/venv"
    python=$work/venv/bin/python3
    run "$work/venv/bin/inferprof" --version
    expect "the wheel's command is the program" 0 out "^inferprof $VERSION"
    check "the wheel's record names every file with its digest" "$python" tests/packages/check_record.py "$wheel"
    (unset INFERPROF && cd "$work" && "$python" "$OLDPWD/tests/packages/python_package.py" "$OLDPWD") >"$work/python.log" 2>&1
    cat "$work/python.log"
    check "all checks of the Python package ran" grep -qx 'ran to the end' "$work/python.log"
    (unset INFERPROF && cd "$work" && "$python" "$OLDPWD/tests/packages/notebook.py") >"$work/notebook.log" 2>&1
    check "a notebook shows the verdict of a run" grep -qx 'verdict shown' "$work/notebook.log"
    grep -qx 'verdict shown' "$work/notebook.log" || sed 's/^/# /' "$work/notebook.log"
}

# in_root PROGRAM ARGS...: runs it with chroot, in a user namespace if the user is not root
in_root() {
    if [ "$(id -u)" = 0 ]; then run chroot "$root" "$@"; else run unshare -r chroot "$root" "$@"; fi
}
package() { dpkg --root="$root" --force-depends --force-not-root --log="$work/dpkg.log" "$@" >"$work/dpkg.out" 2>&1; }

deb_tests() {
    deb=$(ls build/dist/inferprof_"$VERSION"_*.deb)
    root=$work/root
    run lintian --fail-on error,warning "$deb"
    expect "lintian has no error and no warning" 0
    [ -s "$work/out" ] && sed 's/^/# /' "$work/out"
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/lib64" "$root/tmp"
    : >"$root/var/lib/dpkg/status"
    # The libraries that the package depends on; dpkg does not install them here.
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work" ./usr/bin/inferprof ./usr/lib/inferprof
    for program in "$work/usr/bin/inferprof" "$work"/usr/lib/inferprof/inferprof-counters; do
        ldd "$program" | grep -oE '/[^ ]+\.so[^ ]*' | while read -r library; do
            mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
        done
    done
    find "$root" -type f | LC_ALL=C sort >"$work/before"
    check "the package installs into a clean root" package --install "$deb"
    in_root /usr/bin/inferprof --version
    expect "the installed program runs" 0 out "^inferprof $VERSION"
    run "$work/usr/bin/inferprof" doctor # outside of the root, which has no /proc
    check "the program finds the collector of its package" grep -qE "^OK +collector +$work/usr/lib/inferprof/" "$work/out"
    for file in share/man/man1/inferprof.1.gz share/bash-completion/completions/inferprof share/zsh/site-functions/_inferprof \
        share/fish/vendor_completions.d/inferprof.fish share/doc/inferprof/copyright lib/systemd/system/inferprof.service; do
        check "the package has $file" test -s "$root/usr/$file"
    done
    check "the systemd unit starts the installed program" grep -q '^ExecStart=/usr/bin/inferprof serve ' "$root/usr/lib/systemd/system/inferprof.service"
    check "the package is removed" package --purge inferprof
    find "$root" -type f ! -path '*/var/*' | LC_ALL=C sort >"$work/after"
    check "nothing is left" sh -c "grep -v /var/ '$work/before' | cmp - '$work/after'"
}

standalone 30 wheel_tests deb_tests
