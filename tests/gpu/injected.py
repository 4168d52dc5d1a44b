"""Runs workloads.py in a process of its own, with or without the collector injected."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(collector, folder, arguments, settings=None):
    """Returns its standard output. `collector` None: not injected; `settings`: {"DELAY_US": 4000000, ...}."""
    env = dict(os.environ)
    if collector:
        os.makedirs(folder, exist_ok=True)
        env.update(CUDA_INJECTION64_PATH=collector, NVTX_INJECTION64_PATH=collector, INFERPROF_COLLECT_DIR=folder)
        env.update({"INFERPROF_COLLECT_" + name: str(value) for name, value in (settings or {}).items()})
    command = [sys.executable, HERE + "/workloads.py", *arguments]
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def round_ends(collector, folder, program, end_s, settings):
    """End time of each round in ns of the wall clock. The program runs until end_s seconds after the start of its process."""
    times = folder + "/times.json"
    run(collector, folder, [program, "--until", str(end_s), "--times", times], settings)
    with open(times) as f:
        return json.load(f)
