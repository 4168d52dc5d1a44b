#!/bin/sh
# Prints gen/version.h, the build information of `inferprof --version`. Environment: VERSION, CUDA_INC.
set -eu
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
if [ "$commit" != unknown ] && ! git diff --quiet HEAD -- src Makefile 2>/dev/null; then commit="$commit-dirty"; fi
cuda=
if [ -n "${CUDA_INC:-}" ] && [ -r "$CUDA_INC/cuda.h" ]; then
    n=$(sed -n 's/^#define CUDA_VERSION *\([0-9]*\).*/\1/p' "$CUDA_INC/cuda.h")
    cuda="$((n / 1000)).$((n % 1000 / 10))"
fi
cat <<END
#define INFERPROF_VERSION "$VERSION"
#define INFERPROF_COMMIT "$commit"
#define INFERPROF_CUDA "$cuda"
END
