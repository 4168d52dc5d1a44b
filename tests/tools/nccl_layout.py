#!/usr/bin/env python3
"""Compares the table of src/collect/nccl_layout.c with the headers of NCCL.

usage: nccl_layout.py NCCL [VERSION_OF_NCCL] [--write FILE]

NCCL is a checkout or a git directory; VERSION_OF_NCCL a commit, branch or tag of it (default: HEAD). Prints one line per
interface version and ends with status 1 if an offset, a size or the set of versions differs. Needs git, cc and c++. --write
replaces the rows of these versions in FILE (tests/data/nccl/offsets.tsv), which a unit test compares with the table.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HEADERS = "src/include/plugin/profiler"
PRELUDE = """#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <sys/types.h>
typedef int ncclResult_t; typedef pid_t ncclPid_t;
typedef void (*ncclDebugLogger_t)(int, unsigned long, const char *, int, const char *, ...);
"""


def shell(*args, **options):
    return subprocess.run(args, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout


def read_headers(repository, commit):
    git = ["git", "-C", repository]
    names = shell(*git, "ls-tree", "--name-only", commit, HEADERS + "/").split()
    found = {}
    for name in names:
        match = re.search(r"/profiler_v(\d+)\.h$", name)
        if match:
            found[int(match.group(1))] = shell(*git, "show", f"{commit}:{name}")
    return found


def run_program(folder, name, text, compiler, *more):
    source = folder / name
    source.write_text(text)
    shell(compiler, "-w", "-o", str(folder / "program"), str(source), *more)
    return [line.split() for line in shell(str(folder / "program")).splitlines()]


def read_table(folder):
    """Returns {version: {member: offset or None}} and the members of the table."""
    members = re.findall(r"F\((\w+), ([\w.]+)\)", (TOP / "src/collect/nccl_layout.h").read_text())
    members = [(name, member) for name, member in members if name != "name"]
    lines = ['#include <stdio.h>', '#include "collect/nccl_layout.h"', "int main(void) {"]
    lines += ["for (unsigned v = NCCL_FIRST_VERSION; v <= NCCL_LAST_VERSION; v++) {", "const struct nccl_layout *l = nccl_layout(v);"]
    lines += ['printf("%u size %u\\n", v, l->size); printf("%u type_bytes %u\\n", v, l->type_bytes);']
    lines += ['printf("%u state %u\\n", v, l->state_timer);']
    lines += [f'printf("%u {member} %u\\n", v, l->{name});' for name, member in members]
    lines += ["}", "}"]
    table = {}
    for version, member, offset in run_program(folder, "table.c", "\n".join(lines), "cc", f"-I{TOP}/src",
                                               f"{TOP}/src/collect/nccl_layout.c"):
        table.setdefault(int(version), {})[member] = None if offset == "65535" else int(offset)
    return table


def read_nccl(folder, headers, version, wanted):
    """Returns the same for the headers. A member that does not compile is absent."""
    text = PRELUDE + "".join(f"typedef int ncclProfilerEventState_v{v}_t;\n" for v in headers)
    for v in sorted(headers):
        (folder / f"profiler_v{v}.h").write_text(headers[v])
    text += f'#include "profiler_v{version}.h"\n'
    struct = f"ncclProfilerEventDescr_v{version}_t"
    out = {}
    for member in wanted:
        if member == "size":
            value = f"sizeof({struct})"
        elif member == "type_bytes":
            value = f"sizeof((({struct} *)0)->type)"
        elif member == "state":
            value = f"offsetof(ncclProfilerEventStateArgs_v{version}_t, kernelCh.pTimer)"
        else:
            value = f"offsetof({struct}, {member})"
        program = text + f'int main() {{ printf("{member} %zu\\n", (size_t){value}); }}\n'
        try:
            rows = run_program(folder, "nccl.cc", program, "c++", f"-I{folder}")
            out[member] = int(rows[0][1])
        except subprocess.CalledProcessError:
            out[member] = None
    return out


def write_offsets(path, identity, measured):
    """Writes the offsets of the headers, and keeps the rows of other versions."""
    old = path.read_text().splitlines() if path.exists() else []
    kept = [line for line in old if not line.startswith("#") and int(line.split()[0]) not in measured]
    notes = [line for line in old if line.startswith("# version") and int(line.split()[2].rstrip(":")) not in measured]
    notes += [f"# version {v}: NCCL {identity}" for v in measured]
    rows = kept + [f"{v}\t{m}\t{'-' if b is None else b}" for v, members in measured.items() for m, b in members.items()]
    head = ["# Sizes and offsets in bytes of ncclProfilerEventDescr_vN_t, from NCCL's headers. Columns: interface version, member (size: of",
            "# the struct; type_bytes: of `type`; state: of kernelCh.pTimer in the state arguments), bytes (-: no such member)."]
    rows.sort(key=lambda line: int(line.split()[0]))
    path.write_text("\n".join(head + sorted(notes, key=lambda n: int(n.split()[2].rstrip(":"))) + rows) + "\n")


def main():
    target = None
    if "--write" in sys.argv[:-1]:
        at = sys.argv.index("--write")
        target = Path(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    repository, commit = sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "HEAD"
    identity = shell("git", "-C", repository, "log", "-1", "--format=%H %cs", commit).strip()
    headers = read_headers(repository, commit)
    wrong, measured = 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = read_table(folder)
        print(f"NCCL {identity}: interface versions {', '.join(map(str, sorted(headers)))}")
        for version, members in table.items():
            if version not in headers:
                print(f"version {version}: not in these headers")
                continue
            theirs = measured[version] = read_nccl(folder, headers, version, members)
            bad = [f"{m}: table {members[m]}, header {theirs[m]}" for m in members if members[m] != theirs[m]]
            present = sum(v is not None for v in members.values())
            print(f"version {version}: {present} members equal, {len(members) - present} absent in both" if not bad
                  else f"version {version}: " + "; ".join(bad))
            wrong += len(bad)
        newer = [v for v in headers if v > max(table)]
        if newer:
            print(f"newer than the table: {newer}")
    if target:
        write_offsets(target, identity, measured)
    sys.exit(1 if wrong else 0)


main()
