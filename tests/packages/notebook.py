"""Runs a notebook that shows a run, with nbconvert and a real kernel, and looks for the verdict in its output."""
import json
import os
import sys

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

os.makedirs("kernels/here", exist_ok=True)
with open("kernels/here/kernel.json", "w", encoding="utf-8") as file:
    json.dump({"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "here",
               "language": "python"}, file)
os.environ["JUPYTER_PATH"] = os.getcwd()
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import inferprof\ninferprof.open('watched')")])
ExecutePreprocessor(timeout=120, kernel_name="here").preprocess(notebook, {"metadata": {"path": "."}})
shown = notebook.cells[0].outputs[0].data.get("text/html", "")
print("verdict shown" if "decode takes" in shown and "<table>" in shown else notebook.cells[0].outputs)
