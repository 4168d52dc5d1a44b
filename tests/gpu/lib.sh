# Sourced by the scripts of this folder: finds the collector and runs programs with it.
# shellcheck shell=bash
GPU=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$GPU/../.." && pwd)
OUT=${OUT:-$ROOT/build/gpu}
WORK=${WORK:-$(mktemp -d)}
PYTHON=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$OUT" "$WORK"

# Builds the collector if possible (it needs libzstd), otherwise uses an existing build.
find_collector() {
    if [ -z "${COLLECTOR:-}" ]; then
        if make -s -C "$ROOT" build/libinferprof-collector.so INFERPROF_NO_DEPS=1 >"$WORK/make.log" 2>&1; then
            COLLECTOR=$ROOT/build/libinferprof-collector.so
        else
            tail -n 3 "$WORK/make.log"
            COLLECTOR=$(find "$ROOT" -name libinferprof-collector.so -size +0 | head -n 1)
            echo "using an existing build: $COLLECTOR"
        fi
    fi
    INFERPROF=${INFERPROF:-$(find "$ROOT" -type f -name inferprof -perm -u+x | while read -r f; do "$f" --version >/dev/null 2>&1 && echo "$f"; done | head -n 1)}
    echo "collector: $COLLECTOR   inferprof: ${INFERPROF:-none}"
}

# collect DIR [NAME=VALUE...] -- COMMAND...: runs the command with the collector, traces in DIR
collect() {
    local dir=$1 env=()
    shift
    mkdir -p "$dir"
    while [ "$1" != -- ]; do
        env+=("$1")
        shift
    done
    shift
    env "${env[@]}" CUDA_INJECTION64_PATH="$COLLECTOR" NVTX_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$dir" "$@"
}
