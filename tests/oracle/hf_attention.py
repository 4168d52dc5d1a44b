"""hf_attention.py ENGINES: attn_implementation=auto takes FlashAttention 2 where it is installed, and falls back with a note."""
import sys
import types

sys.path.insert(0, sys.argv[1])
import worker  # noqa: E402

worker.import_libraries()
torch = worker.torch


def model(device, dtype):
    m = worker.Model.__new__(worker.Model)  # nothing is loaded
    m.device, m.dtype, m.notes = torch.device(device), dtype, []
    return m


def picked(installed, device, dtype, asked="auto"):
    worker.importlib.util.find_spec = lambda name: object() if installed and name == "flash_attn" else None
    return model(device, dtype).pick_attention(asked)


found = worker.importlib.util.find_spec
assert picked(True, "cuda", torch.bfloat16) == picked(True, "cuda", torch.float16) == "flash_attention_2"
assert picked(False, "cuda", torch.bfloat16) is picked(True, "cuda", torch.float32) is picked(True, "cpu", torch.bfloat16) is None
assert picked(False, "cuda", torch.bfloat16, "sdpa") == "sdpa"
worker.importlib.util.find_spec = found


def built(refusal, asked):
    """The attention of a model whose class refuses FlashAttention 2, and the notes for the report."""
    m = model("cuda", torch.bfloat16)
    m.attention_auto, m.attention = asked == "auto", "flash_attention_2"

    def build(self):
        if self.attention:
            raise worker.Refusal(refusal)
        return "a model"
    m.build_auto = types.MethodType(build, m)
    try:
        return m.build_with_fallback(), m.attention, m.notes
    except worker.Refusal as e:
        return str(e)


made, attention, notes = built("StrangeModel does not support Flash Attention 2", "auto")
assert made == "a model" and attention is None and len(notes) == 1, (made, attention, notes)
assert "FlashAttention 2 is installed, but the model did not load with it (StrangeModel does not" in notes[0], notes
assert built("config.json: no such file", "auto") == "config.json: no such file"
assert built("StrangeModel does not support Flash Attention 2", "flash_attention_2").startswith("StrangeModel"), "asked for by name"
print("ok")
