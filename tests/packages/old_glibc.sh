#!/bin/sh
# The wheel in a root folder of Ubuntu 22.04: the oldest distribution in wide use whose glibc (2.35) is not older than
# the wheel's tag demands. Requires root, debootstrap and `make wheel`; downloads about 100 MB. Environment: VERSION,
# UBUNTU_MIRROR, OLD_ROOT (a root folder made before, which is used instead of a new one).
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/standalone.sh

in_root() { run chroot "$root" env HOME=/root LC_ALL=C.UTF-8 "$@"; }

old_glibc_tests() {
    wheel=$(ls build/dist/inferprof-"$VERSION"-py3-none-manylinux_*_x86_64.whl)
    root=${OLD_ROOT:-$work/root}
    if [ ! -x "$root/usr/bin/python3" ]; then
        debootstrap --variant=minbase --include=python3,python3-pip --components=main,universe jammy "$root" \
            "${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" >"$work/debootstrap.log" 2>&1
        check "a root folder of Ubuntu 22.04 is made" test $? -eq 0
    fi
    mkdir -p "$root/test"
    cp "$wheel" tests/data/kineto/tl_vit_nsfw_h100.json.gz "$root/test/"
    in_root python3 -c 'import platform; print(*platform.libc_ver())'
    minor=$(sed -n 's/^glibc 2\.//p' "$work/out")
    tag=$(echo "$wheel" | sed 's/.*manylinux_2_\([0-9]*\)_.*/\1/')
    echo "# the wheel demands glibc 2.$tag, the root has 2.$minor"
    check "the root has the glibc that the wheel demands, or one newer at most" test "$minor" -ge "$tag" -a "$minor" -le $((tag + 1))
    in_root python3 -m pip install --no-index --no-deps --force-reinstall "/test/$(basename "$wheel")"
    expect "pip accepts the tag of the wheel" 0 out 'Successfully installed inferprof'
    in_root inferprof --version
    expect "the program of the wheel runs" 0 out "^inferprof $VERSION"
    in_root inferprof import -q /test/tl_vit_nsfw_h100.json.gz -o /test/vit
    expect "the program imports a trace" 0
    check "the report is written" test -s "$root/test/vit/report.html"
    in_root python3 -c '
import inferprof
run = inferprof.open("/test/vit")
print(len(run.kernels), run.verdict)'
    expect "the Python package reads the run" 0 out '^[1-9][0-9]* .* takes '
    in_root inferprof engine --help
    expect "the engine runs" 0 out 'Usage'
    # shellcheck disable=SC2016
    in_root sh -c 'LD_PRELOAD=$(python3 -c "import inferprof, os; print(os.path.dirname(inferprof.__file__))")/_native/lib/inferprof/libinferprof-collector.so /bin/echo fine'
    expect "the collector loads into a program" 0 out '^fine$'
    check "the loader has no complaint" test ! -s "$work/err"
    rm -rf "$root/test"
}

standalone 9 old_glibc_tests
