"""ray_job.py RANKS COLLECTOR DIR: starts Ray on this machine, and actors that are profiled through their environment."""
import os
import sys
import time

import ray

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
ranks, collector, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
traces = os.path.join(folder, "trace")
os.makedirs(traces, exist_ok=True)
profiled = {
    "CUDA_INJECTION64_PATH": collector,
    "NVTX_INJECTION64_PATH": collector,
    "NCCL_PROFILER_PLUGIN": collector,
    "INFERPROF_COLLECT_DIR": traces,
    "LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"],
    "PYTHONPATH": sys.path[0],
}
ray.init(num_cpus=ranks, include_dashboard=False, runtime_env={"env_vars": profiled})


@ray.remote(num_cpus=1)
class Worker:
    def work(self):
        import rank

        rank.main(10)
        return os.getpid()


workers = [
    Worker.options(runtime_env={"env_vars": {**profiled, "RANK": str(r), "WORLD_SIZE": str(ranks)}}).remote() for r in range(ranks)
]
pids = set(ray.get([w.work.remote() for w in workers]))
# Ray kills actors that are still there at the end. A terminated actor ends by itself, and its trace is closed.
for w in workers:
    w.__ray_terminate__.remote()
deadline = time.monotonic() + 60
while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
    time.sleep(0.1)
print("worker processes:", len(pids))
ray.shutdown()
