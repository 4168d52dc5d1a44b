#!/usr/bin/env python3
"""Time from the start of the engine's process to the first token, and the memory that it takes then, on one model file.

    tests/bench/startup.py [--inferprof build/inferprof] [--runs 5] [--max-context 0] [--keep] MODEL

A file is first removed from the page cache. The first run reads it again, through the engine's mapping, and does not count: a
file that was just written may be in the cache in small pages, which take longer to map; --keep measures it as it is. RssAnon is the memory of the process itself,
RssFile the mapped part of the files: weights that were copied would be in RssAnon."""
import argparse
import json
import os
import statistics
import subprocess
import time


def evict(path):
    """Only clean pages leave the cache, so the file is written to the disk first."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def one(binary, path, max_context):
    start = time.monotonic()
    p = subprocess.Popen([binary, "engine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(request):
        p.stdin.write(json.dumps(request) + "\n")
        p.stdin.flush()
        reply = json.loads(p.stdout.readline())
        if "error" in reply:
            raise SystemExit(reply["error"])
        return reply

    load = ask({"op": "load", "model": path, "max_context": max_context})
    first = ask({"op": "infer", "prompt_ids": [1], "max_new_tokens": 1, "ignore_eos": True})
    passed = time.monotonic() - start
    with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
        memory = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in f if line.startswith(("RssAnon", "RssFile"))}
    second = ask({"op": "infer", "prompt_ids": [1], "max_new_tokens": 1, "ignore_eos": True})
    ask({"op": "bye"})
    p.wait()
    return passed * 1e3, load["load_ms"], first["ttft_ms"], second["ttft_ms"], memory


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inferprof", default="build/inferprof")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--max-context", type=int, default=0, help="0: the engine's default")
    p.add_argument("--keep", action="store_true", help="leave the file in the page cache as it is")
    p.add_argument("model")
    o = p.parse_args()
    if not o.keep and os.path.isfile(o.model):
        evict(o.model)
    if not o.keep:
        one(o.inferprof, o.model, o.max_context)
    runs = [one(o.inferprof, o.model, o.max_context) for _ in range(o.runs)]
    names = ("start to first token", "load", "first token of the first request", "of the second request")
    print(", ".join("%s %.1f ms" % (n, statistics.median(r[i] for r in runs)) for i, n in enumerate(names)))
    print("RssAnon %.0f MiB, RssFile %.0f MiB" % (runs[-1][4]["RssAnon"], runs[-1][4]["RssFile"]))


if __name__ == "__main__":
    main()
