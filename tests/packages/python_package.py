"""python_package.py SOURCE_TREE: checks of the installed Python package. Prints one "ok" or "not ok" line per check."""
import gc
import json
import os
import subprocess
import sys

import inferprof

TREE = sys.argv[1]
KINETO = os.path.join(TREE, "tests/data/kineto")


def check(name, holds):
    print(("ok " if holds else "not ok ") + name, flush=True)


def fails(call, *words):
    """The call raises inferprof.Error and its message has all the words."""
    try:
        call()
    except inferprof.Error as problem:
        return all(word in str(problem) for word in words)
    return False


def main():
    trace = os.path.join(KINETO, sorted(n for n in os.listdir(KINETO) if n.endswith(".json.gz"))[0])
    before = sorted(os.listdir(KINETO))
    opened = inferprof.open(trace)
    check("a recorded trace opens as a run", opened.metrics["schema"] == "inferprof.metrics/2")
    check("nothing is written beside the input", sorted(os.listdir(KINETO)) == before)
    folder = opened.folder
    import pandas

    kernels = opened.kernels
    check("with pandas a table is a DataFrame", isinstance(kernels, pandas.DataFrame))
    check("the table has every row of metrics.json", len(kernels) == len(opened.metrics["kernels"]) > 0)
    check("sums agree with metrics.json",
          kernels["total_ns"].sum() == sum(k["total_ns"] for k in opened.metrics["kernels"]))
    check("an unknown value is missing, not zero", opened.stages["mfu"].isna().all())
    check("a wrong name lists the tables", "kernels" in attribute_error(opened, "kernelz"))
    check("an unknown stage lists the stages", key_error(opened))
    page = opened._repr_html_()
    timed = [s for s in opened.metrics["stages"] if s["time_ms"] is not None]
    check("the HTML has a row per stage with a time", len(timed) > 0 and page.count("<tr>") == 1 + len(timed))
    del opened, kernels
    gc.collect()
    check("the temporary results go with the run", not os.path.exists(folder))

    check("a missing file is one message", fails(lambda: inferprof.open("missing.json"), "missing.json: no such file"))
    with open("broken.json", "w", encoding="utf-8") as file:
        file.write("{")
    check("a broken file is one message that names it", fails(lambda: inferprof.open("broken.json"), "broken.json"))
    os.makedirs("other", exist_ok=True)
    with open("other/metrics.json", "w", encoding="utf-8") as file:
        json.dump({"schema": "inferprof.metrics/99"}, file)
    check("a newer schema is refused with the remedy", fails(lambda: inferprof.open("other"), "99", "package"))
    with open("other/metrics.json", "w", encoding="utf-8") as file:
        json.dump({"schema": "inferprof-metrics", "schema_version": 1, "run": {"title": "<script>x</script>"},
                   "verdict": "The machine was busy <i>", "stages": [{"name": "<b>", "time_ms": 12345.6}]}, file)
    hostile = inferprof.open("other")
    check("hostile names are escaped in HTML", "<script>" not in hostile._repr_html_() and "&lt;b&gt;" in hostile._repr_html_())
    check("the verdict is that of metrics.json, also of a busy machine",
          hostile.verdict == "The machine was busy <i>" and "The machine was busy &lt;i&gt;" in hostile._repr_html_())

    check("without a tool markers do nothing", not inferprof.watched() and inferprof.stage("a") is inferprof.window())
    watched_program()
    without_pandas(trace)
    static = inferprof.static(os.path.join(TREE, "tests/data/models/llama-3.1-8b-instruct.json"))
    check("static returns its JSON", isinstance(static, dict) and len(static) > 1)
    same = inferprof.compare("watched", "watched")
    check("compare returns its JSON", isinstance(same, dict) and len(same) > 1)
    print("ran to the end")


def attribute_error(run, name):
    try:
        getattr(run, name)
    except AttributeError as problem:
        return str(problem)
    return ""


def key_error(run):
    try:
        run.stage("no such stage")
    except KeyError as problem:
        return run.metrics["stages"][0]["name"] in str(problem)
    return False


PROGRAM = """
import inferprof, sys
@inferprof.stage("prefill")
def prefill():
    inferprof.tokens(consumed=12)
prefill()
for i in range(5):
    with inferprof.stage("decode"):
        inferprof.tokens(made=1)
inferprof.mark("end")
sys.exit(3 if inferprof.watched() else 4)
"""


def watched_program():
    run = inferprof.run([sys.executable, "-c", PROGRAM], output="watched")
    stages = {s["name"]: s["trace"]["occurrences"] for s in run.metrics["stages"]}
    check("markers become stages", stages.get("prefill") == 1 and stages.get("decode") == 5)
    check("the status of the program is kept", run.status == 3)
    dump = subprocess.run([inferprof.program(), "trace", "dump", "--kind", "token", "--json", "watched"],
                          capture_output=True, text=True, check=True).stdout
    counts = [json.loads(line)["count"] for line in dump.splitlines()]
    check("token counts are recorded", sorted(counts) == [1, 1, 1, 1, 1, 12])


def without_pandas(trace):
    code = ("import sys; sys.modules['pandas'] = None; import inferprof\n"
            "r = inferprof.open(sys.argv[1]); k = r.kernels\n"
            "assert isinstance(k, list) and isinstance(k[0], dict) and len(k) == len(r.metrics['kernels'])")
    check("without pandas a table is a list of dicts", subprocess.call([sys.executable, "-c", code, trace]) == 0)


main()
