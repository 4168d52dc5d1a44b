#!/bin/sh
# Packs a tarball that runs without installing packages: libraries are linked as archives, and the remaining shared
# libraries are in the tarball, found by a relative run path. Libraries that only some commands load are there too.
# Environment: BUILD (a STATIC=1 build), VERSION.
set -eu
name=inferprof-$VERSION-linux-x86_64
out=build/dist
sh scripts/deps.sh dist
rm -rf "${out:?}/$name"
mkdir -p "$out/$name/bin" "$out/$name/lib/inferprof" "$out/$name/share/doc/inferprof"
make -s --no-print-directory STATIC=1 install PREFIX=/ DESTDIR="$PWD/$out/$name" >/dev/null
cp -r README.md LICENSE CHANGELOG.md docs "$out/$name/share/doc/inferprof/"
rm -r "$out/$name"/share/doc/inferprof/docs/examples/*/trace
# The libraries that serve, push and --database load at run time, as library_load() names them.
loaded_later='libmicrohttpd.so.12 libpq.so.5 libcurl-gnutls.so.4'

# Prints the paths of the shared libraries that a file needs. Those of glibc are not carried.
needed_by() {
    ldd "$1" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(lib(c|m|dl|pthread|rt|resolv)\.so\.|ld-linux)' || true
}

# The package of a library owns the license text. dpkg may know the file by its path before /usr was merged.
license_of() {
    package=$(dpkg -S "$(realpath "$1")" 2>/dev/null || dpkg -S "$(realpath "$1" | sed 's,^/usr,,')" 2>/dev/null) || return 0
    package=${package%%:*}
    cp -L "/usr/share/doc/$package/copyright" "$out/$name/share/doc/inferprof/libraries/$package.txt"
}

mkdir -p "$out/$name/share/doc/inferprof/libraries"
{
    needed_by "$out/$name/bin/inferprof"
    for soname in $loaded_later; do
        path=$(ldconfig -p | awk -v s="$soname" '$1 == s && /x86-64/ {print $NF; exit}')
        [ -n "$path" ] || { echo "dist.sh: $soname is not installed" >&2; exit 1; }
        echo "$path"
        needed_by "$path"
    done
} | sort -u >"$out/libraries"
while read -r lib; do
    cp -L "$lib" "$out/$name/lib/inferprof/"
    license_of "$lib"
done <"$out/libraries"
strip --strip-debug "$out/$name/bin/inferprof" "$out/$name"/lib/inferprof/*.so*
# A library finds the libraries it needs in its own folder.
while read -r lib; do
    patchelf --set-rpath "\$ORIGIN" "$out/$name/lib/inferprof/$(basename "$lib")"
done <"$out/libraries"
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz"
