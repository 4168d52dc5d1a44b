#!/bin/sh
# fuzz_pack.sh TARGET...: puts the fuzz targets of $BUILD/fuzz into $BUILD/fuzz-pack, with the libraries and the loader
# that they need, seeds, dictionaries and tests/fuzz/campaign.sh, to run on another machine.
set -eu
pack=$BUILD/fuzz-pack
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib" "$pack/seeds" "$pack/corpus" "$pack/dict"
for target in "$@"; do
    name=${target#fuzz_}
    strip --strip-debug -o "$pack/bin/$target" "$BUILD/fuzz/$target"
    mkdir -p "$pack/seeds/$name" "$pack/corpus/$name"
    [ ! -d "tests/fuzz/corpus/$name" ] || cp -r "tests/fuzz/corpus/$name/." "$pack/seeds/$name/"
    [ ! -f "tests/fuzz/corpus/$name.tar.gz" ] || tar -C "$pack/corpus/$name" -xzf "tests/fuzz/corpus/$name.tar.gz"
    [ ! -f "tests/fuzz/$name.dict" ] || cp "tests/fuzz/$name.dict" "$pack/dict/"
done
# From the system: the targets themselves look in lib/ (Makefile).
for library in libc.so.6 libm.so.6 libgcc_s.so.1 libstdc++.so.6 libpthread.so.0 libdl.so.2 librt.so.1 ld-linux-x86-64.so.2; do
    cp -L "$(${CC:-clang} -print-file-name="$library")" "$pack/lib/"
done
strip --strip-debug "$pack"/lib/lib*.so*
cp tests/fuzz/campaign.sh "$pack/"
git rev-parse HEAD >"$pack/COMMIT"
echo "$pack"
