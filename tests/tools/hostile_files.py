#!/usr/bin/env python3
"""hostile_files.py FOLDER: writes small files that are made to exhaust the time, memory or disk of their reader."""
import gzip
import json
import os
import sqlite3
import struct
import sys

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
PAGE = 512


def virtual_table(path):
    """A virtual table that returns the rows of a view with 10^15 rows."""
    db = sqlite3.connect(path)
    db.execute("CREATE VIEW endless AS WITH RECURSIVE n(rowid, start, end) AS "
               "(SELECT 1, 1, 2 UNION ALL SELECT rowid + 1, start, end FROM n LIMIT 1000000000000000) SELECT * FROM n")
    db.execute(f"CREATE VIRTUAL TABLE {KERNELS} USING fts5(start, end, content='endless')")
    db.commit()
    db.close()


def interior_page(child):
    """A page of a table's tree whose entries all refer to the same page."""
    cell = struct.pack(">I", child) + b"\x01"
    count = (PAGE - 12) // (len(cell) + 2)
    start = PAGE - count * len(cell)
    head = struct.pack(">BHHHBI", 5, 0, count, start, 0, child)
    pointers = b"".join(struct.pack(">H", start + i * len(cell)) for i in range(count))
    return (head + pointers).ljust(start, b"\0") + cell * count


def shared_pages(path):
    """An ordinary table with 71^10 rows: each of ten levels of its tree refers to one page, again and again."""
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA page_size = {PAGE}")
    db.execute(f"CREATE TABLE {KERNELS}(start, end)")
    db.execute(f"INSERT INTO {KERNELS} VALUES (1, 2)")
    db.commit()
    db.close()
    with open(path, "r+b") as f:
        data = f.read()
        leaf = data[PAGE:2 * PAGE]
        pages = [interior_page(2 + level + 1) for level in range(10)] + [leaf]
        f.seek(PAGE)
        f.write(b"".join(pages))
        f.seek(28)
        f.write(struct.pack(">I", 1 + len(pages)))


def damaged(path):
    """The list of tables is garbage."""
    shared_pages(path)
    with open(path, "r+b") as f:
        f.seek(100)
        f.write(b"\xff" * 200)


def bomb(path):
    """1 MB that unpacks to 1 GB."""
    with gzip.open(path, "wb", 9) as f:
        f.write(b"SQLite format 3\0")
        for _ in range(1024):
            f.write(bytes(1 << 20))


def nested(path, depth):
    """Annotations inside each other."""
    events = [{"ph": "X", "cat": "cpu_op", "name": f"op{i % 100000}", "pid": 1, "tid": 1, "ts": i, "dur": 2 * (depth - i)}
              for i in range(depth)]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)


def nested_work(path, depth, kernels):
    """Ranges of three kinds inside each other; the innermost launches all kernels."""
    kinds = ["python_function", "cpu_op", "user_annotation"]
    operators = ["aten::mm", "nccl:all_reduce", "vllm::unified_attention_with_output"]
    names = ["gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "attention"]
    shapes = {"Input Dims": [[64, 128], [128, 256]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    host = {"ph": "X", "pid": 1, "tid": 1}
    events = [{**host, "cat": kinds[i % 3], "name": f"f{i % 5}", "ts": i, "dur": 2 * (depth - i) + 100 * kernels}
              for i in range(depth)]
    for i in range(kernels):
        ts, link = depth + 100 * i, {"correlation": i + 1}
        events.append({**host, "cat": "cpu_op", "name": operators[i % 3], "ts": ts, "dur": 20, "args": shapes})
        events.append({**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 1, "dur": 2, "args": link})
        events.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": names[i % 3], "ts": ts + 3, "dur": 4,
                       "args": {"device": 0, "stream": 7, **link}})
        events.append({**host, "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": ts + 8, "dur": 2,
                       "args": {"correlation": kernels + i + 1}})
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}, f)


def open_at_once(path, steps):
    """Steps of as many threads, all open at the same time, and kernels without launches."""
    events = [{"ph": "X", "pid": 1, "tid": i, "cat": "user_annotation", "name": "decode", "ts": 1000 + 10 * i, "dur": 20 * steps}
              for i in range(steps)]
    events += [{"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", "ts": 1003 + 10 * i, "dur": 9,
                "args": {"device": 0, "stream": 7, "correlation": 0}} for i in range(steps)]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}, f)


def damaged_times(path):
    """20 ms of kernels, one kernel at time 0, one operator that was never closed."""
    now, events = 1.7e15, []
    for i in range(200):
        link = {"correlation": i + 1}
        events.append({"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": now + 100 * i,
                       "dur": 2, "args": link})
        events.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", "ts": now + 100 * i + 5, "dur": 40,
                       "args": {"device": 0, "stream": 7, **link}})
    events.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", "ts": 0, "dur": 0,
                   "args": {"device": 0, "stream": 7}})
    events.append({"ph": "X", "pid": 1, "tid": 1, "cat": "cpu_op", "name": "open", "ts": now, "dur": 7.5e15})
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}, f)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    virtual_table(os.path.join(folder, "virtual.sqlite"))
    shared_pages(os.path.join(folder, "shared.sqlite"))
    damaged(os.path.join(folder, "damaged.sqlite"))
    bomb(os.path.join(folder, "bomb.sqlite.gz"))
    nested(os.path.join(folder, "nested.json"), 180000)
    nested_work(os.path.join(folder, "nested_work.json"), 90000, 60000)
    open_at_once(os.path.join(folder, "open_at_once.json"), 150000)
    damaged_times(os.path.join(folder, "damaged_times.json"))
    os.mkfifo(os.path.join(folder, "fifo"))


main()
