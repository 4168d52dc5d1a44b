#!/usr/bin/env python3
"""covers.py FUZZ_FOLDER > covers.tsv: the code that each fuzz target executes when it runs on its seeds and corpus.

FUZZ_FOLDER holds the programs that `make fuzz` builds. A line has a target, a source file of which it executes at least
one function, and the functions of that file that it never executes. A function that the compiler has put into its
callers is not among these. campaign_table.py uses the list to tell which slices of the campaigns ran on the present
code."""
import os
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# "COVERED_FUNC: hits: 1 edges: 3/5 name PATH:LINE", or "UNCOVERED_FUNC"; the path ends with the path inside the repository.
FUNCTION = re.compile(r"^(UN)?COVERED_FUNC: .* (\S+) (?:\S*/)?(src/\S+\.[ch]):\d+$", re.M)


def inputs_of(name, folder):
    """The folders with this target's seeds and corpus; the corpus is unpacked into folder."""
    found = [p for p in [os.path.join(HERE, "corpus", name)] if os.path.isdir(p)]
    packed = os.path.join(HERE, "corpus", name + ".tar.gz")
    if os.path.exists(packed):
        with tarfile.open(packed) as tar:
            tar.extractall(folder)
        found.append(folder)
    return found


def main(programs):
    for program in sorted(p for p in os.listdir(programs) if re.fullmatch(r"fuzz_\w+", p)):
        name = program[len("fuzz_"):]
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cwd:
            done = subprocess.run([os.path.abspath(os.path.join(programs, program)), "-runs=0", "-print_coverage=1", "-timeout=60",
                                   *inputs_of(name, folder)], cwd=cwd, capture_output=True, text=True, errors="replace",
                                  timeout=900, check=False)
        executed, skipped = {}, {}
        for un, function, path in FUNCTION.findall(done.stderr):
            (skipped if un else executed).setdefault(path, set()).add(function)
        if not executed:
            sys.exit(f"covers.py: {program} names no covered file:\n{done.stderr[-2000:]}")
        for path in sorted(executed):
            print(name, path, " ".join(sorted(skipped.get(path, set()) - executed[path])), sep="\t")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
