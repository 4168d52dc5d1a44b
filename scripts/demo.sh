#!/bin/sh
# Runs `inferprof profile` without arguments: the embedded model on the CPU with the embedded sample pages. The last line
# printed is the run folder. Environment: BUILD.
set -eu
exec "$BUILD/inferprof" profile
