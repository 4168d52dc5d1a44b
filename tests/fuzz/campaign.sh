#!/bin/bash
# campaign.sh MINUTES CORES: runs the fuzz targets of a folder that `make fuzz-pack` made, started inside it, for MINUTES
# in all. CORES: a number, or a list as for taskset (4-15). Each core takes the target with the least CPU time so far and
# runs it for a slice; the last part of the time merges the new inputs into the smallest set with the same coverage
# (MERGE_SECONDS=0: not here, where each minute is needed; a later campaign merges them).
#
# State, which the next campaign goes on from: corpus/NAME (inputs that the seeds do not have), slices.log (one line per
# slice: target, commit, CPU seconds, inputs run, new inputs, crashes), crashes/. campaign_table.py adds up slices.log.
set -u
minutes=${1:?usage: campaign.sh MINUTES CORES} cores=${2:?usage: campaign.sh MINUTES CORES}
slice_s=${SLICE_SECONDS:-60}
start=$SECONDS
total_s=$((minutes * 60))
merge_s=${MERGE_SECONDS:-$((total_s / 8 > 90 ? 90 : total_s / 8))}
commit=$(cat COMMIT)
TIMEFORMAT='%U %S'
export ASAN_OPTIONS=${ASAN_OPTIONS:-} LC_ALL=C
mkdir -p corpus crashes work
touch slices.log
rm -f work/*
exec 9>work/lock

core_list() { # one core number per line
    case $cores in
    *[-,]*) echo "$cores" | tr ',' '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done ;;
    *) seq 0 $((cores - 1)) ;;
    esac
}
on_core() { # CORE COMMAND...: on this core if CORES is a list
    core=$1
    shift
    case $cores in *[-,]*) taskset -c "$core" nice -n 19 "$@" ;; *) nice -n 19 "$@" ;; esac
}
names() { # $TARGETS: only these
    if [ -n "${TARGETS:-}" ]; then echo "$TARGETS" | tr ' ' '\n'; else for f in bin/fuzz_*; do echo "${f#bin/fuzz_}"; done; fi
}

# Prints the target with the least CPU time, and books SECONDS for it.
next_target() { # SECONDS
    flock 9
    names | awk -v seconds="$1" '
        FILENAME == "slices.log" { cpu[$1] += $3; next }
        FILENAME == "work/booked" { cpu[$1] += $2; next }
        { if (best == "" || cpu[$1] + 0 < cpu[best] + 0) best = $1 }
        END { print best; print best, seconds >> "work/booked" }' slices.log work/booked -
    flock -u 9
}
log_slice() { # the slice is in slices.log from now on: cancel its booking
    flock 9
    echo "$1 $commit $3 $4 $5 $6" >>slices.log
    echo "$1 -$2" >>work/booked
    flock -u 9
}

run_slice() { # CORE NAME SECONDS
    name=$2 log=work/$2-$1.log new=work/$2-$1.new
    mkdir -p "corpus/$name" "seeds/$name" "$new"
    set -- "$1" "$2" "$3" "$new" "corpus/$name" "seeds/$name"
    dict=()
    [ -f "dict/$name.dict" ] && dict=("-dict=dict/$name.dict")
    crashes=$(find crashes -name "$name-*" | wc -l)
    cpu=$({ time on_core "$1" "bin/fuzz_$name" -max_total_time="$3" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
        ${dict[@]+"${dict[@]}"} -artifact_prefix="crashes/$name-" "${@:4}" >"$log" 2>&1; } 2>&1 |
        awk '{ s += $1 + $2 } END { printf "%.1f", s }')
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [ -n "$runs" ] || runs=$(sed -n 's/^#\([0-9]*\).*/\1/p' "$log" | tail -n 1) # a crash: no final figures
    found=$(find crashes -name "$name-*" | wc -l)
    [ "$found" = "$crashes" ] || cp "$log" "crashes/$name.log"
    log_slice "$name" "$3" "$cpu" "${runs:-0}" "$(find "$new" -type f | wc -l)" $((found - crashes))
    find "$new" -type f -exec mv -f {} "corpus/$name/" \;
}

work_on() { # CORE
    while left=$((total_s - merge_s - (SECONDS - start))) && [ "$left" -gt 5 ]; do
        seconds=$((left < slice_s ? left : slice_s))
        run_slice "$1" "$(next_target "$seconds")" "$seconds"
    done
}

# Keeps the inputs that add coverage to the seeds. What cannot be merged in time stays as it is.
merge_one() { # CORE NAME
    merged=work/$2.merged left=$((total_s - (SECONDS - start)))
    mkdir -p "$merged" "seeds/$2" "corpus/$2"
    cp -r "seeds/$2/." "$merged/"
    if [ $left -gt 2 ] && on_core "$1" timeout -s KILL $left "bin/fuzz_$2" -merge=1 -rss_limit_mb=2048 -timeout=10 "$merged" "corpus/$2" \
        >"work/$2-merge.log" 2>&1; then
        find "seeds/$2" -type f -printf '%P\n' | while read -r f; do rm -f "$merged/$f"; done
        rm -rf "corpus/$2"
        mv "$merged" "corpus/$2"
    else
        rm -rf "$merged"
        echo "$2: not merged, $(find "corpus/$2" -type f | wc -l) inputs" >&2
    fi
}
merge_all() { # CORE: takes names from the list
    while :; do
        flock 9
        name=$(head -n 1 work/to_merge)
        sed -i 1d work/to_merge
        flock -u 9
        [ -n "$name" ] || return
        merge_one "$1" "$name"
    done
}

: >work/booked
for core in $(core_list); do (exec 9>work/lock; work_on "$core") & done
wait
cut -d ' ' -f 1 work/booked | sort -u >work/to_merge
for core in $(core_list); do (exec 9>work/lock; merge_all "$core") & done
wait
awk '{ cpu[$1] += $3; runs[$1] += $4; new[$1] += $5; crashes[$1] += $6 }
    END { for (t in cpu) printf "%-16s %8.1f CPU seconds %12d inputs run %6d new %4d crashes\n", t, cpu[t], runs[t], new[t], crashes[t] }' \
    slices.log | sort
