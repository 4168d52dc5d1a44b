#!/bin/sh
# `inferprof doctor` against the mock libraries.
. tests/cli/lib.sh
export LD_LIBRARY_PATH="$PWD/$BUILD/tests/mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH

run "$INFERPROF" doctor
expect "doctor: one screen" 0 out 'OK +driver +NVIDIA 580.00.mock' out 'OK +CUPTI +version 130001' out 'limited +GPU +1: .*MIG on' \
    out 'OK +collector' out 'OK +disk' out 'native path works'
run "$INFERPROF" doctor --json
expect "doctor: as JSON" 0 out '"native_path_works": true' out '"check": "CUPTI"'
run env INFERPROF_COLLECTOR=/nowhere.so "$INFERPROF" doctor
expect "doctor: without the collector the native path does not work" 1 out 'missing +collector'
run env MOCK_NVML_FAILS=1 "$INFERPROF" doctor
expect "doctor: a driver that is not loaded" 0 out 'missing +NVML' out 'Driver Not Loaded'
run "$INFERPROF" doctor -o "$work/out"
expect "doctor: runs cannot be written into a file" 1 out 'missing +disk +.*is not a folder' out 'existing folder with --output'
