#!/usr/bin/env python3
"""The Hugging Face engine: runs a model with the user's torch and transformers, behind inferprof's engine protocol
(docs/engine.md).

Reads one JSON request per line from standard input and writes one JSON reply per line. The model's own `generate` makes
the answer, which is the same as without inferprof. A logits processor separates prefill from decode (stages.py).
"""
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import sys
import time

DTYPES = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32"}
MAX_LINE = 16 << 20
WARMUP_TOKENS = 16  # maximum new tokens of the warm-up for recording
MAX_BATCH = 4096  # maximum sequences per request; in practice the device's memory is the limit
NO_CUDA = ("Found no NVIDIA driver", "not compiled with CUDA", "No CUDA GPUs are available")  # torch's error messages


class Refusal(Exception):
    """An error that the user can fix. Its text becomes the protocol's error."""


def import_libraries():
    global torch, transformers, stages, routing
    try:
        import torch
        import transformers
    except ImportError as e:
        raise Refusal(f"{sys.executable}: {e}; install torch and transformers for this Python, or set another Python with "
                      "engine.python=/path/to/python3") from e
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import routing
    import stages


# ---- loading

def pick_device(name):
    wanted = name or "cuda:0"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise Refusal(f"device {wanted}: torch {torch.__version__} finds no CUDA device; use device=cpu, or install a torch that "
                      "matches your driver")
    device = torch.device(wanted)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise Refusal(f"device {wanted}: this machine has {torch.cuda.device_count()} CUDA devices; the first is cuda:0")
    return device


def read_config(folder):
    path = os.path.join(folder, "config.json")
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except OSError as e:
        raise Refusal(f"{path}: {e.strerror}; model.path must be a folder with config.json") from e
    except ValueError as e:
        raise Refusal(f"{path}: {e}") from e


def fill_random(model, seed):
    """Fills weights at the usual scale, so that activations stay finite. Norms are one, biases are zero."""
    generator = torch.Generator(device=next(model.parameters()).device).manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() < 2:
                p.fill_(1.0 if name.endswith("weight") else 0.0)  # a one-dimensional weight belongs to a norm, regardless of its name
            else:
                inputs = p.shape[-1] if p.dim() == 3 else p[0].numel()  # 3: one matrix per expert; 4: a convolution
                p.normal_(0.0, inputs ** -0.5, generator=generator)


def dtype_argument():
    """Returns the name of from_pretrained's argument for the data type: `torch_dtype` until 4.55, `dtype` since."""
    major, minor = (int(n) for n in transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def without_init():
    """Skips transformers' weight initialisation: fill_random sets the weights, and both take minutes for large models."""
    for module in ("initialization", "modeling_utils"):  # 5.x, 4.x
        with contextlib.suppress(ImportError, AttributeError):
            return importlib.import_module("transformers." + module).no_init_weights()
    return contextlib.nullcontext()


def is_dsocr(raw):
    return raw.get("model_type") == "deepseek_vl_v2" or any("DeepseekOCR" in a for a in raw.get("architectures", []))


# DeepSeek-OCR's own code is written for this version. Names that it imports were removed in 4.48.
DSOCR_TRANSFORMERS = "4.46.3"


def dsocr_stages(remote):
    """Module paths of the encoders: under `model` in the vendor's code, at the top level in dsocr.py."""
    inside = "model." if remote else ""
    return {"sam": inside + "sam_model", "clip": inside + "vision_model", "projector": inside + "projector"}


def dsocr_name(published):
    """Maps the published name of a weight to its name in dsocr.py."""
    name = published
    for a, b in (("model.", ""), ("vision_model.embeddings.", "vision_model."), ("vision_model.transformer.", "vision_model."),
                 ("projector.layers.", "projector.")):
        name = b + name[len(a):] if name.startswith(a) else name
    return name


def load_dsocr_weights(model, folder):
    from safetensors import safe_open
    own = dict(model.named_parameters())
    files = [f for f in sorted(os.listdir(folder)) if f.endswith(".safetensors")]
    if not files:
        raise Refusal(f"{folder}: no .safetensors file; use model.weights=synthetic:0 to measure speed without weights")
    for file in files:
        with safe_open(os.path.join(folder, file), framework="pt") as tensors:
            for key in tensors.keys():
                if dsocr_name(key) in own:
                    own.pop(dsocr_name(key)).data.copy_(tensors.get_tensor(key))
    if own:
        raise Refusal(f"{folder}: no weights for {len(own)} parameters; the first is {next(iter(own))}")


class Model:
    """A loaded model with its tokenizer or processor."""

    def __init__(self, request):
        self.path = request.get("model", "embedded")
        if self.path == "embedded":
            raise Refusal("the Hugging Face engine has no embedded model; set model.path=DIR")
        self.raw = read_config(self.path)
        self.device = pick_device(request.get("device"))
        dtype = request.get("dtype", "auto")
        text = self.raw.get("text_config") or self.raw.get("language_config") or self.raw
        declared = self.raw.get("torch_dtype") or self.raw.get("dtype") or text.get("torch_dtype") or text.get("dtype") or "bfloat16"
        self.dtype = getattr(torch, DTYPES.get(dtype, dtype if dtype != "auto" else str(declared).replace("torch.", "")))
        self.weights = request.get("weights", "auto")
        self.notes = []
        self.attention = self.pick_attention(request.get("attn_implementation") or "auto")
        self.trust = bool(request.get("trust_remote_code"))
        self.batch = int(request.get("batch") or 1)
        self.device_map = request.get("device_map")
        self.max_context = int(request.get("max_context") or 0)  # 0: no limit
        self.dsocr = is_dsocr(self.raw)
        self.remote_dsocr = self.dsocr and self.trust
        self.tokenizer = self.processor = None
        given = request.get("stages")  # {}: no sub-stages
        self.stage_modules = dict(given if given is not None else dsocr_stages(self.remote_dsocr) if self.dsocr else {})
        self.model = self.build_dsocr() if self.dsocr and not self.trust else self.build_with_fallback()
        self.model.eval()
        self.found_stages, problems = stages.find_modules(self.model, self.stage_modules)
        self.notes += problems
        self.eos = self.model.generation_config.eos_token_id
        self.load_tokenizer()
        self.compiled = request.get("compile") or None
        if self.compiled:
            self.compiled = self.compiled if isinstance(self.compiled, str) else "reduce-overhead"
            if not hasattr(transformers, "CompileConfig"):  # older versions do not compile in generate()
                self.model.forward = torch.compile(self.model.forward, mode=self.compiled)
        self.fixed_cache = self.record_steps() if request.get("cuda_graphs") else None

    def pick_attention(self, asked):
        """`auto`: FlashAttention 2 if its package is installed and supports the device and the type, else the model's default."""
        self.attention_auto = asked == "auto"
        if not self.attention_auto:
            return asked
        usable = self.device.type == "cuda" and self.dtype in (torch.float16, torch.bfloat16)
        return "flash_attention_2" if usable and importlib.util.find_spec("flash_attn") else None

    def build_with_fallback(self):
        """A model that does not support FlashAttention 2 gets its default instead, if it was not asked for by name."""
        if not (self.attention_auto and self.attention):
            return self.build_auto()
        try:
            return self.build_auto()
        except Refusal as e:
            if "lash" not in str(e):
                raise
            self.notes.append(f"attn_implementation=auto: FlashAttention 2 is installed, but the model did not load with it ({e}); its "
                              "default was used")
            self.attention = None
            return self.build_auto()

    def record_steps(self):
        if self.compiled:
            raise Refusal("cuda_graphs and compile exclude each other: compile=reduce-overhead already records CUDA graphs. Use one "
                          "of them")
        if self.dsocr:
            raise Refusal("cuda_graphs: a decode step of this model reads the chosen experts back from the GPU, so it cannot be "
                          "recorded; leave out cuda_graphs")
        import graphs
        graphs.StepGraph(self.model)
        return graphs.FixedCache(self.model, self.batch)

    def synthetic_seed(self):
        if not self.weights.startswith("synthetic"):
            return None
        seed = self.weights.partition(":")[2] or "0"
        if not seed.isdigit():
            raise Refusal(f"weights '{self.weights}': expected synthetic:SEED, where SEED is a whole number")
        return int(seed)

    def build_dsocr(self):
        import dsocr
        seed = self.synthetic_seed()
        try:
            attend = dsocr.attention_named(self.attention)
        except (ImportError, ValueError) as e:
            raise Refusal(f"{self.path}: {e}; {self.load_remedy(e, f'FlashAttention: {e}')}") from e
        with torch.device(self.device):
            default = torch.get_default_dtype()
            torch.set_default_dtype(self.dtype)
            try:
                model = dsocr.DsocrForCausalLM(dsocr.config_from_json(self.raw), attend)
            finally:
                torch.set_default_dtype(default)
        if seed is None:
            load_dsocr_weights(model, self.path)
        else:
            fill_random(model, seed)
        return model

    def auto_class(self):
        vision = "vision_config" in self.raw
        name = "AutoModelForImageTextToText" if vision else "AutoModelForCausalLM"
        if self.trust and "auto_map" in self.raw and "AutoModel" in self.raw["auto_map"]:
            name = "AutoModel"
        if not hasattr(transformers, name):
            name = "AutoModelForVision2Seq"
        return getattr(transformers, name)

    def options(self):
        extra = {"trust_remote_code": self.trust, dtype_argument(): self.dtype}
        if self.attention:
            extra["attn_implementation"] = self.attention
        return extra

    def from_files(self, cls):
        if self.device_map:
            return cls.from_pretrained(self.path, device_map=self.device_map, **self.options())
        return cls.from_pretrained(self.path, **self.options()).to(self.device)

    def from_config_only(self, cls, seed):
        if self.device_map:
            raise Refusal("device_map requires weights from files; leave out device_map or model.weights=synthetic")
        config = transformers.AutoConfig.from_pretrained(self.path, trust_remote_code=self.trust)
        with torch.device(self.device), without_init():
            model = cls.from_config(config, **self.options())
        fill_random(model, seed)
        return model

    def build_auto(self):
        seed = self.synthetic_seed()
        try:
            cls = self.auto_class()
            return self.from_files(cls) if seed is None else self.from_config_only(cls, seed)
        except (OSError, ValueError, KeyError, ImportError, AttributeError) as e:
            why = str(e).strip().splitlines()[0].rstrip(".") if str(e).strip() else type(e).__name__
            raise Refusal(f"{self.path}: {why}; {self.load_remedy(e, why)}") from e

    def load_remedy(self, e, why):
        """Returns advice for a model that did not load."""
        if self.attention and (self.attention in why or "FlashAttention" in why):
            package = f"install the flash-attn package for {sys.executable}, or " if "flash" in self.attention else ""
            return package + "use engine.load.attn_implementation=sdpa or eager"
        here = transformers.__version__
        wanted = DSOCR_TRANSFORMERS if self.dsocr else self.raw.get("transformers_version")
        if self.trust and isinstance(e, (ImportError, AttributeError)) and wanted not in (None, here):
            own = ", or leave out trust_remote_code: inferprof's implementation works with any version" if self.dsocr else ""
            return (f"the model's own code is written for transformers {wanted}, but {here} is installed: install "
                    f"transformers=={wanted}{own}")
        if "pip install" in why:
            return f"install it for {sys.executable}"
        return (f"the installed transformers is {here}: the model may need another version, trust_remote_code=true, or, "
                "without weights, model.weights=synthetic:0")

    def autocast(self):
        """DeepSeek-OCR's own `infer` uses autocast for bf16 on CUDA. All other cases run without autocast."""
        if self.remote_dsocr and self.device.type == "cuda" and self.dtype == torch.bfloat16:
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def load_tokenizer(self):
        files = os.listdir(self.path)
        if not self.dsocr and ("processor_config.json" in files or "preprocessor_config.json" in files):
            self.processor = transformers.AutoProcessor.from_pretrained(self.path, trust_remote_code=self.trust)
            self.tokenizer = self.processor.tokenizer
        elif "tokenizer.json" in files or "tokenizer.model" in files:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.path, trust_remote_code=self.trust)

    def text_ids(self, text):
        if self.tokenizer:
            return self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [3 + b for b in text.encode()]  # without a tokenizer, one token per byte is sufficient for random weights

    def dsocr_inputs(self, request):
        import dsocr
        options = request.get("image") or {}
        sizes = dsocr.sizes_of(options)
        images = [dsocr.views_of(p, sizes, int(options.get("max_tiles") or 9), self.device, self.dtype)
                  for p in request.get("inputs") or []]
        prompt = request.get("prompt")
        prompt = "<image>\nFree OCR." if prompt is None else prompt
        prompt = prompt.strip()  # the model's own `infer` does the same
        if images and "<image>" not in prompt:
            prompt = "<image>\n" * len(images) + prompt
        parts = prompt.split("<image>")
        if len(parts) - 1 != len(images):
            raise Refusal(f"the prompt has {len(parts) - 1} <image> marks, but the request has {len(images)} images")
        image_id = getattr(self.model.config, "image_id", dsocr.IMAGE_ID)
        ids = [0]
        for i, part in enumerate(parts):
            ids += self.text_ids(part)
            if i < len(images):
                ids += [image_id] * dsocr.rows_of(*images[i])
        made = self.text_inputs(ids)
        if self.remote_dsocr:
            return {**made, **self.remote_images(images, made["input_ids"] == image_id)}
        return {**made, "images": images * self.batch or None}

    def remote_images(self, images, mask):
        """The arguments that the vendor's `infer` passes to its `generate`: tiles and view (zeros if there are none), the mask
        of their positions, and the grid of tiles as a CPU tensor."""
        if len(images) > 1:
            raise Refusal(f"the model's own code accepts one image per prompt, but the request has {len(images)}: send one, or "
                          "leave out trust_remote_code")
        view, tiles, grid = images[0] if images else (torch.zeros(1, 3, 640, 640, device=self.device, dtype=self.dtype), None, None)
        if tiles is None:
            tiles, grid = torch.zeros_like(view), (1, 1)
        return {"images": [(tiles, view)] * self.batch, "images_seq_mask": mask,
                "images_spatial_crop": torch.tensor([grid] * self.batch, dtype=torch.long)}

    def text_inputs(self, ids):
        """Passes the mask explicitly: `generate` would derive it from the pad token, whose id may equal the first token's."""
        return self.batch_inputs([ids] * self.batch)

    def batch_inputs(self, sequences):
        """Accepts sequences of any length; shorter ones are padded on the left, because generation continues on the right."""
        longest = max(len(s) for s in sequences)
        ids = torch.tensor([[0] * (longest - len(s)) + s for s in sequences], device=self.device)
        mask = torch.tensor([[0] * (longest - len(s)) + [1] * len(s) for s in sequences], device=self.device)
        return {"input_ids": ids, "attention_mask": mask}

    def sequences_of(self, request):
        """`prompt_ids` as a list of sequences, if it is a batch; else None."""
        ids = request.get("prompt_ids")
        if not ids or not isinstance(ids[0], list):
            return None
        if self.batch > 1 or self.fixed_cache:
            raise Refusal("a batch in prompt_ids cannot be used with engine.load.batch or cuda_graphs: leave those out")
        if self.dsocr:
            raise Refusal("DeepSeek-OCR has no batch of prompts in this engine: use engine.load.batch")
        if request.get("inputs") or len(ids) > MAX_BATCH or not all(isinstance(s, list) and s for s in ids):
            raise Refusal(f"a batch is a list of 1 to {MAX_BATCH} non-empty lists of ids, without inputs")
        return ids

    def inputs_without_processor(self, prompt, images):
        """Image tokens and pixels from the config alone, with the preprocessing of the model's family."""
        import vision
        try:
            ids, pixels = vision.inputs_of(self.model.config, self.text_ids(prompt.replace("<image>", "")), images)
        except vision.Unknown as e:
            raise Refusal(f"{self.path}: images need the model's processor, but preprocessor_config.json is missing, and {e}") from e
        made = self.text_inputs(ids)
        for name, x in pixels.items():
            x = x.to(self.device, self.dtype if x.is_floating_point() else x.dtype)
            made[name] = torch.cat([x] * self.batch) if self.batch > 1 else x
        return made

    def inputs(self, request):
        sequences = self.sequences_of(request)
        if sequences:
            return self.batch_inputs(sequences)
        if request.get("prompt_ids"):
            made = self.text_inputs(request["prompt_ids"])
            none = torch.zeros_like(made["input_ids"], dtype=torch.bool)
            return {**made, **(self.remote_images([], none) if self.remote_dsocr else {})}
        if self.dsocr:
            return self.dsocr_inputs(request)
        prompt = request.get("prompt") or "Hello"
        if request.get("inputs"):
            if not self.processor and "vision_config" not in self.raw:
                raise Refusal(f"{self.path}: images need the model's processor, but preprocessor_config.json is missing")
            from PIL import Image
            images = [Image.open(p).convert("RGB") for p in request["inputs"]]
            if not self.processor:
                return self.inputs_without_processor(prompt, images)
            made = self.processor(text=[prompt] * self.batch, images=images * self.batch, return_tensors="pt")
            return {k: v.to(self.device) for k, v in made.items()}
        ids = self.text_ids(prompt)
        bos = getattr(self.model.config, "bos_token_id", None)
        return self.text_inputs(([bos] if isinstance(bos, int) else []) + ids)


# ---- running

def new_token_limit(model, request, prompt_tokens):
    limit = int(request.get("max_new_tokens", 128))
    room = model.max_context - prompt_tokens
    if not model.max_context:
        return limit
    if room < 1:
        raise Refusal(f"the prompt has {prompt_tokens} tokens, but engine.max_context is {model.max_context}: use a shorter prompt, or "
                      "a larger engine.max_context")
    return min(limit, room)


def generate_options(model, request, prompt_tokens):
    s = request.get("sampling") or {}
    limit = new_token_limit(model, request, prompt_tokens)
    options = {"max_new_tokens": limit, "do_sample": float(s.get("temperature") or 0) > 0, "use_cache": True}
    if options["do_sample"]:
        options.update(temperature=float(s["temperature"]), top_k=int(s.get("top_k") or 0), top_p=float(s.get("top_p") or 1))
        torch.manual_seed(int(s.get("seed") or 0))
    if int(s.get("no_repeat_ngram") or 0) > 0:
        options["no_repeat_ngram_size"] = int(s["no_repeat_ngram"])
    if model.compiled:
        options["cache_implementation"] = "static"
        if hasattr(transformers, "CompileConfig"):
            options["compile_config"] = transformers.CompileConfig(mode=model.compiled)
    if model.fixed_cache:
        options["past_key_values"] = model.fixed_cache.for_request(prompt_tokens + limit)
        if hasattr(model.model.generation_config, "disable_compile"):  # newer versions compile when the cache is static
            options["disable_compile"] = True
    # set here because newer versions ignore an argument that is None
    model.model.generation_config.eos_token_id = None if request.get("ignore_eos") else model.eos
    if getattr(model.model.generation_config, "pad_token_id", None) is None:
        options["pad_token_id"] = 0
    return options


def infer(model, request, marks_type=None):
    began = time.perf_counter()
    detail, shapes = request.get("detail") or "none", bool(request.get("record_shapes", True))
    clock, marks = stages.Clock(model.device), (marks_type or stages.Marks)(detail != "none")
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(model.device)
    with marks.range("user", "tokenizer"):
        inputs = model.inputs(request)
    batch, prompt_tokens = inputs["input_ids"].shape
    steps = stages.Steps(clock, marks, prompt_tokens, batch)
    parts = stages.SubStages(model.found_stages, model.device, marks, model.notes)
    # hooks would split compiled code
    routed = None if model.compiled else routing.Routing(model.model, steps)
    ready = clock.now()
    ranges = stages.detail_ranges(model.model, detail, shapes, steps, set(model.stage_modules.values()),
                                  int(request.get("operator_layers") or stages.OPERATOR_LAYERS), bool(model.compiled),
                                  bool(request.get("with_stack")))
    recording = memory_recording(model) if request.get("profile_memory") else None
    try:
        with torch.no_grad(), model.autocast(), ranges as note:
            steps.begin()
            out = model.model.generate(**inputs, **generate_options(model, request, prompt_tokens),
                                       logits_processor=transformers.LogitsProcessorList([steps]))
            steps.end()
    finally:
        parts.close()
        if routed:
            routed.close()
        used = recording.result() if recording else None
    ids = out[0, prompt_tokens:].tolist()
    reply = reply_of(model, request, steps, parts, ids, prompt_tokens, (ready - began) * 1e3)
    if note:
        reply["notes"] = [*reply["notes"], note]
    if used:
        reply["memory"] = used
    experts = routed.counts(len(steps.moments) - 2) if routed else None
    if experts:
        reply["experts_read"] = experts
    sequences = model.sequences_of(request)
    if sequences:
        made = count_new(model, out[:, prompt_tokens:].tolist())
        each = [{"prompt_tokens": len(s), "new_tokens": len(m), "ids": m,
                 "text": model.tokenizer.decode(m, skip_special_tokens=False) if model.tokenizer else ""} for s, m in zip(sequences, made)]
        reply.update(batch=batch, prompt_tokens=sum(len(s) for s in sequences), new_tokens=sum(len(m) for m in made), sequences=each)
    return reply


def memory_recording(model):
    import memory
    return memory.Recording(model.model, model.device, model.fixed_cache.cache if model.fixed_cache else None)


def count_new(model, rows):
    """Returns the new ids of each sequence up to and including its end token. `generate` pads sequences that ended earlier."""
    ends = model.model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, (list, tuple)) else [] if ends is None else [ends])
    return [row[:next((i + 1 for i, t in enumerate(row) if t in ends), len(row))] for row in rows]


def stop_reason(model, made, asked, prompt_tokens):
    if made >= asked:
        return "length"
    return "context" if model.max_context and prompt_tokens + made >= model.max_context else "eos"


def reply_of(model, request, steps, parts, ids, prompt_tokens, preprocess_ms):
    token_ms = steps.token_ms()
    asked = int(request.get("max_new_tokens", 128))
    text = model.tokenizer.decode(ids, skip_special_tokens=False) if model.tokenizer else ""
    cuda = model.device.type == "cuda"
    return {"prefill_ms": token_ms[0] if token_ms else None, "decode_ms": sum(token_ms[1:]) if token_ms else None,
            "stages": parts.ms(), "notes": parts.problems, "preprocess_ms": preprocess_ms, "prompt_tokens": prompt_tokens * model.batch,
            "new_tokens": len(ids) * model.batch, "batch": model.batch, "text": text, "ids": ids, "token_ms": token_ms,
            "ttft_ms": preprocess_ms + token_ms[0] if token_ms else None,
            "stop": stop_reason(model, len(ids), asked, prompt_tokens),
            "peak_memory_bytes": torch.cuda.max_memory_allocated(model.device) if cuda else None}


class Engine:
    def __init__(self):
        self.model = None

    def about(self):
        cuda = torch.cuda.is_available()
        isa = f"torch {torch.__version__}, transformers {transformers.__version__}, Python {sys.version.split()[0]}"
        info = {"protocol": 1, "name": "hf", "version": transformers.__version__, "device": "cuda:0" if cuda else "cpu", "isa": isa,
                "threads": torch.get_num_threads(), "max_batch": MAX_BATCH, "model": None, "stages": []}
        m = self.model
        if m:
            info["device"] = str(m.device)
            parameters = list(m.model.parameters())
            text = m.raw.get("text_config") or m.raw.get("language_config") or m.raw
            info["model"] = {
                "name": os.path.basename(os.path.normpath(m.path)), "architecture": m.raw.get("model_type"), "path": m.path,
                "weights": m.weights, "dtype": {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}.get(
                    str(m.dtype).replace("torch.", ""), str(m.dtype)),
                "parameters": sum(p.numel() for p in parameters),
                "weight_bytes": sum(p.numel() * p.element_size() for p in parameters),
                "layers": text.get("num_hidden_layers"), "hidden_size": text.get("hidden_size"),
                "vocab_size": text.get("vocab_size"), "max_context": text.get("max_position_embeddings"),
                "vision": bool(m.stage_modules), "attention": m.attention, "compile": m.compiled, "cuda_graphs": bool(m.fixed_cache),
                "batch": m.batch}
            info["stages"] = ["prefill", *m.stage_modules, "decode"]
        return info

    def load(self, request):
        self.model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        began = time.perf_counter()
        self.model = Model(request)
        return {**self.about(), "load_ms": (time.perf_counter() - began) * 1e3}

    def need_model(self):
        if not self.model:
            raise Refusal("no model is loaded; send load first")
        return self.model

    def warmup(self, request):
        began = time.perf_counter()
        rounds = int(request.get("rounds", 1))
        for _ in range(rounds):
            infer(self.need_model(), request)
        if rounds and self.is_recorded():
            self.warm_up_recording(request)
        return {"rounds": rounds, "ms": (time.perf_counter() - began) * 1e3}

    def is_recorded(self):
        return self.model.device.type == "cuda" and bool(os.environ.get("INFERPROF_COLLECT_DIR"))

    def warm_up_recording(self, request):
        """CUPTI needs time for the first record of each kernel, and this engine for the first range of each operator. A short request
        whose records are discarded keeps both out of the recorded one."""
        tokens = min(WARMUP_TOKENS, int(request.get("max_new_tokens", WARMUP_TOKENS)))
        infer(self.model, {**request, "max_new_tokens": tokens, "detail": "operators"}, stages.WarmupMarks)

    def serve(self, request):
        op = request["op"]
        if op == "hello":
            return self.about()
        if op == "load":
            return self.load(request)
        if op == "infer":
            return infer(self.need_model(), request)
        if op == "warmup":
            return self.warmup(request)
        if op == "bye":
            return {}
        raise Refusal(f"unknown op '{op}'; expected hello, load, warmup, infer or bye")


def explain(e):
    """Returns the error message for an exception, with advice if possible."""
    if isinstance(e, Refusal):
        return str(e)
    name = type(e).__name__
    if "OutOfMemory" in name or "out of memory" in str(e):
        why = str(e).strip().splitlines()[0].rstrip(".") if str(e).strip() else name
        return f"out of device memory: {why}. Use a smaller batch, fewer tokens, a smaller dtype, or another device"
    if any(sign in str(e) for sign in NO_CUDA):
        return (f"the model's own code requires CUDA, but torch {torch.__version__} finds no CUDA device: use a machine with a GPU, "
                "or leave out trust_remote_code")
    where = e.__traceback__
    while where and where.tb_next:
        where = where.tb_next
    place = f" ({os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno})" if where else ""
    return f"{name}: {str(e).strip() or 'no message'}{place}"


def answer(engine, line):
    reply = {"op": None}
    try:
        if len(line) > MAX_LINE:
            raise Refusal("a request line is at most 16 MiB")
        request = json.loads(line)
        if not isinstance(request, dict) or not isinstance(request.get("op"), str):
            raise Refusal('a request must be a JSON object with "op"')
        reply["op"] = request["op"]
        if "id" in request:
            reply["id"] = request["id"]
        reply.update(engine.serve(request))
    except ValueError as e:
        reply["error"] = f"not a JSON request: {e}" if reply["op"] is None else explain(e)
    except Exception as e:  # an error in a model must not end the engine
        reply["error"] = explain(e)
    if "error" in reply:
        free_memory()  # after the except blocks, because a traceback keeps the tensors of the failed call alive
    return reply


def free_memory():
    if "torch" in globals():
        gc.collect()
        torch.cuda.empty_cache()


def main():
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not mix with the replies
    sys.stdout = sys.stderr
    failed = None
    try:
        import_libraries()
    except Refusal as e:
        failed = str(e)
    engine = Engine()
    for line in sys.stdin:
        reply = {"op": None, "error": failed} if failed else answer(engine, line)
        out.write(json.dumps(reply) + "\n")
        out.flush()
        if reply.get("op") == "bye":
            break


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
