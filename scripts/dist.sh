#!/bin/sh
# Packs a tarball that runs without installing packages: libraries are linked as archives, and the remaining shared
# libraries are in the tarball, found by a relative run path. Environment: BUILD (a STATIC=1 build), VERSION.
set -eu
name=inferprof-$VERSION-linux-x86_64
out=build/dist
rm -rf "${out:?}/$name"
mkdir -p "$out/$name/bin" "$out/$name/lib/inferprof" "$out/$name/share/doc/inferprof"
make -s --no-print-directory STATIC=1 install PREFIX=/ DESTDIR="$PWD/$out/$name" >/dev/null
cp -r README.md LICENSE CHANGELOG.md docs "$out/$name/share/doc/inferprof/"
# Shared libraries other than glibc's are copied into the tarball.
ldd "$out/$name/bin/inferprof" | awk '$3 ~ /^\// {print $3}' | while read -r lib; do
    case $(basename "$lib") in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*) ;;
    *) cp -L "$lib" "$out/$name/lib/inferprof/" ;;
    esac
done
strip --strip-debug "$out/$name/bin/inferprof" "$out/$name"/lib/inferprof/*.so*
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz"
