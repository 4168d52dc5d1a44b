#!/bin/bash
# calibrate.sh [INFERPROF]: read bandwidth of the GPU, 1 minute. Checks that reading DRAM reaches 85% to 100% of the
# datasheet (an H200 reads 4.54 of 4.8 TB/s), and that sizes within the L2 cache are faster.
set -u
program=${1:-build/inferprof}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work
"$program" calibrate --json >"$work/first.json" || exit 1
"$program" calibrate --cached-cpu
"$program" calibrate --cached-cpu --json >"$work/second.json" || exit 1
cat "$work/first.json"
python3 - "$work/first.json" "$work/second.json" <<'END'
import json, sys
first, second = (json.load(open(p)) for p in sys.argv[1:])
gpu, again = first["gpus"][0], second["gpus"][0]
assert not gpu["problem"], gpu
share = gpu["share_of_datasheet"]
print(f"{gpu['name']}: {gpu['read_bytes_per_s'] / 1e12:.3f} TB/s, {share:.1%} of the datasheet; again {again['read_bytes_per_s'] / 1e12:.3f}")
assert 0.85 < share <= 1, share
assert abs(gpu["read_bytes_per_s"] / again["read_bytes_per_s"] - 1) < 0.03, (gpu, again)
assert gpu["reads"][0]["bytes_per_s"] > gpu["reads"][-1]["bytes_per_s"], gpu["reads"]
END
