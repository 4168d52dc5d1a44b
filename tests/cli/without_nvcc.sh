#!/bin/sh
# The GPU kernels of the native engine: built in where nvcc is installed; a program built without nvcc says what is missing,
# and works on the CPU.
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
plain=$PWD/$BUILD/tests/inferprof-without-nvcc
nvcc=$(command -v nvcc || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
name="a program built with nvcc has kernels for GPUs"
if [ -n "$nvcc" ]; then
    run "$INFERPROF" --version
    expect "$name" 0 out '^native engine: CPU, and NVIDIA GPUs of compute capability 8.0'
elif [ "${CI:-}" = true ]; then not_ok "$name" "this machine has no nvcc"
else skip "$name" "no nvcc"; fi

run "$plain" --version
expect "--version says that there are no GPU kernels" 0 out '^native engine: CPU \(built without nvcc: no GPU kernels\)$'
run "$plain" doctor # its status depends on the machine
expect "doctor says what to install for GPU kernels" "$status" out 'GPU kernels +built without nvcc' out 'install the CUDA toolkit \(nvcc\)'
run "$plain" engine --prompt a -n 2 --device cuda:0
expect "the engine on a GPU asks for nvcc" 1 err 'built without nvcc.*install the CUDA toolkit \(nvcc\) and build again, or use device=cpu'
run "$plain" engine --prompt a -n 2
expect "the engine without a device takes the CPU" 0 err '^decode: 1 token'
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
run "$plain" profile device=cuda:0 output.dir="$work/runs"
expect "profile on a GPU asks for nvcc" 1 err 'device=cuda:0: this program was built without nvcc.*install the CUDA toolkit'
check "and leaves no folder" test ! -e "$work/runs"
run "$plain" profile repeats=2 infer.max_new_tokens=3 output.dir="$work/runs"
expect "profile with device=auto takes the CPU" 0 out '/runs/'
