"""hf_longrope.py FOLDER: CUDA graphs of a model whose rotary embedding looks at positions on the host (phi3 with longrope).

The steps of three requests are recorded as a CUDA graph and replayed. They must give the tokens of the same steps without a graph, also
when the position passes the length at which longrope changes its frequencies.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "oracle"), os.path.join(HERE, "..", "..", "engines", "hf")]
import hf_models as models  # noqa: E402
import worker  # noqa: E402

worker.import_libraries()
import graphs  # noqa: E402
import torch  # noqa: E402

device = os.environ.get("DEVICE", "cuda:0")
made = []


class StepGraph(graphs.StepGraph):
    """Keeps what it recorded; without `capture`, steps are run on the same buffers instead."""
    capture = True

    def __init__(self, model):
        super().__init__(model)
        self.cuda = self.cuda and self.capture
        made.append(self)


graphs.StepGraph = StepGraph
folder = models.write(sys.argv[1], "phi3", models.PHI3_LONGROPE)
answers = []
for StepGraph.capture in (False, True):
    model = worker.Model({"model": folder, "weights": "synthetic:0", "device": device, "dtype": "f32", "cuda_graphs": True})
    answers.append([worker.infer(model, {"prompt_ids": list(range(5, 5 + n)), "max_new_tokens": 12, "ignore_eos": True})["ids"] for n in (9, 20, 9)])
kinds = [type(m.graph).__name__ for m in made]
print(f"{device}: phi3 with longrope, steps as {kinds[0]} and {kinds[1]}: {'the same' if answers[0] == answers[1] else 'other'} tokens")
print(answers)
sys.exit(answers[0] != answers[1] or len(answers[0][0]) != 12 or (device != "cpu" and not isinstance(made[1].graph, torch.cuda.CUDAGraph)))
