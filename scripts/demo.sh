#!/bin/sh
# `inferprof profile` and nothing else: the embedded model on this CPU with the pages inside the program. The report's
# folder is the last line printed. Input: BUILD.
set -eu
exec "$BUILD/inferprof" profile
