"""Checks the record layouts of src/collect/layout.c against NVIDIA's headers, version by version.

    cupti_layouts.py FOLDER...      each holds cupti_activity.h and cupti_version.h of one version

The headers of older versions come in the Python packages nvidia-cuda-cupti-cu12 and nvidia-cuda-cupti (unpack their
include folder). Needs gcc and the include folder of a CUDA toolkit (CUDA_INC, /usr/local/cuda/include). Prints one line
per version and exits with 1 if any differs.
"""
import os
import re
import subprocess
import sys
import tempfile

# our field: NVIDIA's field
FIELDS = {
    "Kernel": dict(registers="registersPerThread", start="start", end="end", device="deviceId", context="contextId",
                   stream="streamId", grid="gridX", block="blockX", static_smem="staticSharedMemory",
                   dynamic_smem="dynamicSharedMemory", correlation="correlationId", name="name", graph_node="graphNodeId",
                   graph="graphId"),
    "Memcpy": dict(copy_kind="copyKind", bytes="bytes", start="start", end="end", device="deviceId", context="contextId",
                   stream="streamId", correlation="correlationId", graph_node="graphNodeId", graph="graphId"),
    "GraphTrace": dict(correlation="correlationId", start="start", end="end", device="deviceId", graph="graphId",
                       context="contextId", stream="streamId"),
}
FIELDS["MemcpyPtoP"] = FIELDS["Memcpy"]
FIELDS["Memset"] = {k: v for k, v in FIELDS["Memcpy"].items() if k != "copy_kind"}
OURS = {"Kernel": "kernel", "Memcpy": "memcpy_", "Memset": "memset_", "MemcpyPtoP": "peer", "GraphTrace": "graph"}
BYTES = {"Kernel": "kernel_bytes", "Memcpy": "memcpy_bytes", "Memset": "memset_bytes", "MemcpyPtoP": "peer_bytes",
         "GraphTrace": "graph_bytes"}
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def newest(header, base):
    """CUPTI delivers records in the newest struct of its own version."""
    names = re.findall(r"\} CUpti_Activity(%s\d*);" % base, header)
    return "CUpti_Activity" + max(names, key=lambda n: int(n[len(base):] or 1))


def check(folder):
    header = open(os.path.join(folder, "cupti_activity.h")).read()
    version = re.search(r"define CUPTI_API_VERSION (\d+)", open(os.path.join(folder, "cupti_version.h")).read()).group(1)
    source = ["#include <stdio.h>", "#include <stddef.h>", "#include <cupti_result.h>", "#include <cupti_activity.h>",
              '#include "collect/layout.h"', "int main(void) { int bad = 0;",
              f"const struct layout *l = layout_find({version}); if (!l) return 2;"]
    for base, fields in FIELDS.items():
        theirs = newest(header, base)
        pairs = [(f"l->{OURS[base]}->{o}", f"offsetof({theirs}, {t})") for o, t in fields.items()]
        pairs.append((f"l->{BYTES[base]}", f"sizeof({theirs})"))
        for ours, other in pairs:
            source.append(f'if ({ours} != {other}) bad = 1, printf("  {ours} is %d, {other} is %d\\n", (int){ours}, (int)({other}));')
    source.append("return bad; }")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "check.c")
        open(path, "w").write("\n".join(source))
        cuda = os.environ.get("CUDA_INC", "/usr/local/cuda/include")
        subprocess.run(["gcc", "-w", "-I", os.path.join(ROOT, "src"), "-I", folder, "-isystem", cuda, "-o", path[:-2], path,
                        os.path.join(ROOT, "src", "collect", "layout.c")], check=True)
        r = subprocess.run([path[:-2]], capture_output=True, text=True)
    print(f"CUPTI {version} ({folder}): {'as in layout.c' if r.returncode == 0 else 'DIFFERS'}\n{r.stdout}", end="")
    return r.returncode == 0


if __name__ == "__main__":
    sys.exit(not all([check(f) for f in sys.argv[1:]]))
