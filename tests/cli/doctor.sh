#!/bin/sh
# `inferprof doctor` with the mock libraries of tests/mock.
. tests/cli/lib.sh
export LD_LIBRARY_PATH="$PWD/$BUILD/tests/mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN

run "$INFERPROF" doctor
expect "doctor lists driver, CUPTI, GPUs, collector and disk" 0 out 'OK +driver +NVIDIA 580.00.mock' out 'OK +CUPTI +version 130001' out 'limited +GPU +1: .*MIG on' \
    out 'OK +collector' out 'OK +disk' out 'native path works'
run "$INFERPROF" doctor --json
expect "doctor --json succeeds" 0
check "doctor --json has the verdict and the CUPTI check" \
    json_is "$work/out" 'd["native_path_works"], [c["status"] for c in d["checks"] if c["check"] == "CUPTI"]' "(True, ['OK'])"
run env INFERPROF_COLLECTOR=/nowhere.so "$INFERPROF" doctor
expect "doctor fails without the collector" 1 out 'missing +collector'
run "$INFERPROF" doctor
expect "doctor reports that collectives of NCCL can be recorded" 0 out 'OK +NCCL plugin'
run env NCCL_PROFILER_PLUGIN=other "$INFERPROF" doctor
expect "doctor reports that another NCCL plugin is used" 0 out 'limited +NCCL plugin +NCCL_PROFILER_PLUGIN=other'
run env MOCK_NVML_FAILS=1 "$INFERPROF" doctor
expect "doctor reports a driver that is not loaded" 0 out 'missing +NVML' out 'Driver Not Loaded'
run "$INFERPROF" doctor -o "$work/out"
expect "doctor rejects a file as the output folder" 1 out 'missing +disk +.*is not a folder' out 'existing folder with --output'
