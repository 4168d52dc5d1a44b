#!/bin/sh
# Packs the tarball's files and python/ into a wheel; prints its path. Environment: VERSION. Requires `make dist`.
set -eu
exec python3 scripts/wheel.py "$VERSION" "build/dist/inferprof-$VERSION-linux-x86_64" build/dist
