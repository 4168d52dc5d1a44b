"""Makes a torch.profiler trace of a program whose steps are known, without annotations.

    make_steps.py SCENE TRACE.json TRUTH.jsonl [SEED [STEPS]]

llama    llama.cpp: loads weights, captures a graph, generates 5 x STEPS (128) tokens after prompts of 512; logits go to the host
bench    as llama-bench: 1 + 3 prompts of 512 tokens, then 1 + 3 x STEPS tokens; the 1 is to warm up, and outside of graphs
sampled  as bench, but each of the first 50 replays takes 400 us longer, as if its kernels were recorded
server   prompts and decode steps alternate, batch and lengths change; ids go to the host on a stream of their own
mixed    prompts and generated tokens share steps
padded   decode steps replay graphs for 1, 2, 4, 8 or 16 requests, the batch is padded
unified  as mixed, but one attention kernel serves both, so that steps with both look like prompts
vision   as server, but each prompt begins with an image: an encoder of 6 layers runs before the lookup of ids
loop     matrix products and a norm, read back every time: no language model
train    a transformer with a backward pass

The truth has one line per step: kind, tokens, requests.
"""
import json
import random
import sys

NORM = "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, c10::BFloat16 const*, float, int, int)"
GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
ROPE = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)"
KV = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(...)"
PREFILL = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>(Flash_fwd_params)"
DECODE = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>(Flash_fwd_params)"
VISION = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)"
UNIFIED = "kernel_unified_attention_2d"
ACT = "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*, c10::BFloat16 const*, int)"
GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
ARGMAX = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4>>(...)"


class Trace:
    def __init__(self, seed, steps):
        self.events, self.now, self.device, self.id, self.graph = [], 1000.0, 1000.0, 0, 0
        self.rng, self.steps = random.Random(seed), steps

    def add(self, cat, name, ts, dur, args, tid):
        self.events.append(dict(ph="X", cat=cat, name=name, pid=1 if cat.startswith("cuda") else 0, tid=tid, ts=round(ts, 3),
                                dur=round(dur, 3), args=args))

    def call(self, name, dur=2.0):
        self.id += 1
        self.add("cuda_runtime", name, self.now, dur, {"correlation": self.id}, 100)
        self.now += dur + self.rng.random()
        return self.id

    def run(self, dur):
        start = max(self.device, self.now + 1)
        self.device = start + dur
        return start

    def device_args(self, stream, correlation):
        return dict(device=0, context=1, stream=stream, correlation=correlation)

    def kernel(self, name, grid, dur, block=256, stream=7, correlation=None, node=0):
        own = correlation is None
        correlation = self.call("cudaLaunchKernel") if own else correlation
        args = dict(self.device_args(stream, correlation), grid=list(grid) + [1] * (3 - len(grid)), block=[block, 1, 1])
        args["registers per thread"] = 32
        if node:
            args.update({"graph node id": node, "graph id": 3})
        dur *= 0.95 + 0.1 * self.rng.random()
        self.add("kernel", name, self.run(dur), dur, args, stream)

    def copy(self, kind, size, dur=1.5, stream=7, wait=False):
        correlation = self.call("cudaMemcpyAsync", 3.0)
        start = self.run(dur)
        self.add("gpu_memcpy", f"Memcpy {kind} (Pinned -> Device)", start, dur, dict(self.device_args(stream, correlation), bytes=size), stream)
        if wait:
            correlation = self.call("cudaStreamSynchronize", max(self.device - self.now, 1.0))
            self.now = max(self.now, self.device) + 5

    def replay(self, kernels):
        correlation = self.call("cudaGraphLaunch", 12.0)
        for node, (name, grid, dur) in enumerate(kernels, 1):
            self.kernel(name, grid, dur, correlation=correlation, node=node)

    def capture(self, kernels):
        for _ in kernels:
            self.call("cudaLaunchKernel")
        self.call("cudaGraphInstantiate", 900.0)

    def launch(self, kernels):
        for name, grid, dur in kernels:
            self.kernel(name, grid, dur)

    def load(self, gigabytes):
        for _ in range(gigabytes * 16):
            self.copy("HtoD", 1 << 26, dur=1300.0)

    def write(self, path):
        device = dict(id=0, name="NVIDIA H200", numSms=132, computeMajor=9, computeMinor=0, maxThreadsPerMultiprocessor=2048)
        json.dump(dict(schemaVersion=1, deviceProperties=[device], traceEvents=self.events), open(path, "w"))


def llama(t, truth, bench=False, slower=0):
    def step(rows):
        heavy = 1 if rows == 1 else 8
        mm = "void mul_mat_vec_q<(ggml_type)8, 1>(void const*)" if rows == 1 else "void mul_mat_q<(ggml_type)8, 128>(char const*)"
        norm = "void rms_norm_f32<1024, true, false>(float const*, float*, int, long)"
        kernels = []

        def layer(n):
            out = [(norm, (n,), 2), (mm, (1280,), 4 * heavy), (mm, (1280,), 4 * heavy), (mm, (1280,), 4 * heavy),
                   ("void rope_neox<true, false, float>(float const*)", (n * 10, 1), 2), ("void rope_neox<true, false, float>(float const*)", (n * 10, 1), 2),
                   ("void k_set_rows<float, long, __half>(float const*)", (n,), 2), ("void k_set_rows<float, long, __half>(float const*)", (n,), 2),
                   ("void flash_attn_ext_vec<128, 1>(char const*)", (1, 4, 10), 6), ("void flash_attn_combine_results<128>(float const*)", (1, 10), 2),
                   (mm, (1280,), 4 * heavy), ("void k_bin_bcast<op_add>(float const*)", (3,), 2), (norm, (n,), 2), (mm, (64,), 2),
                   ("void soft_max_f32<true, 64, 64>(float const*)", (n,), 2), ("void k_argsort_f32_i32<(ggml_sort_order)1>(float const*)", (n,), 2),
                   ("void k_get_rows_float<float, float>(float const*)", (6, 1), 2), (mm, (896, 6), 5 * heavy),
                   ("void unary_gated_op_kernel<op_silu, float>(float const*)", (21,), 2), (mm, (1280, 6), 5 * heavy),
                   ("void k_bin_bcast<op_add>(float const*)", (3,), 2)]
            return out

        for i in range(12):
            kernels += layer(rows)
        kernels += [("void k_get_rows_float<float, float>(float const*)", (5, 1), 2), ("void k_bin_bcast<op_add>(float const*)", (3,), 2),
                    ("void k_bin_bcast<op_mul>(float const*)", (3,), 2), ("void cpy_flt<float>(char const*)", (3,), 2),
                    ("void cpy_flt<float>(char const*)", (3,), 2), ("void quantize_q8_1(float const*)", (3,), 2),
                    (norm, (1,), 2), (mm, (129280,), 235)]
        return kernels

    def run(rows, graph, loading=0):
        t.copy("HtoD", 5120 * rows)
        for size in (4 * rows, 8, 4 * rows):
            t.copy("HtoD", size)
        t.now += loading  # of modules, in microseconds
        (t.replay if graph else t.launch)(step(rows))
        t.copy("DtoH", 517120, dur=25, wait=True)
        truth("prefill" if rows > 1 else "decode", rows, 1)

    t.load(2)
    t.now += 200000  # loading of modules
    captured, replays = False, 0
    if bench:  # as llama-bench: prompts first, and one step to warm up before each kind of work
        for i in range(4):
            run(512, False, 0 if i else 300000)
        run(1, False, 9000)
        for _ in range(3 * t.steps):
            if not captured:
                t.capture(step(1))
            captured = True
            replays += 1
            run(1, True, 400 if replays <= slower else 0)
        return
    run(1, False)
    for _ in range(5):
        run(512, False)
        for _ in range(t.steps or 128):
            if not captured:
                t.capture(step(1))
            captured = True
            run(1, True)


def layers(tokens, attention, number=16):
    body = []
    for _ in range(number):
        body += [(NORM, (tokens,), 3), (GEMM, (132,), 8), (ROPE, (tokens,), 3), (KV, (tokens,), 3)]
        body += [(name, grid, 10) for name, grid in attention]
        body += [(GEMM, (64,), 6), (NORM, (tokens,), 3), (GEMM, (132,), 12), (ACT, (tokens,), 4), (GEMM, (132,), 10)]
    return body


class Batch:
    """Requests that come, generate and leave."""

    def __init__(self, rng):
        self.rng, self.left = rng, []

    def next(self, together):
        new = []
        if not self.left or (len(self.left) < 14 and self.rng.random() < 0.25):
            new = [self.rng.randint(9, 900) for _ in range(self.rng.randint(1, 3))]
        old = len(self.left) if together or not new else 0
        if old:
            self.left = [n - 1 for n in self.left]
        self.left = [n for n in self.left if n > 0] + [self.rng.randint(2, 60) for _ in new]
        return new, old


def server(t, truth, mode="server"):
    batch = Batch(t.rng)
    t.load(1)
    for _ in range(t.steps or 300):
        new, old = batch.next(mode in ("mixed", "unified"))
        tokens, requests = sum(new) + old, len(new) + old
        graph = mode == "padded" and not new
        rows = min(n for n in (1, 2, 4, 8, 16) if n >= requests) if graph else tokens
        for size in (8 * tokens, 8 * tokens, 4 * (requests + 1)):
            t.copy("HtoD", size, stream=7)
        attention = [(PREFILL, (n // 64 + 1, 1, 8)) for n in new] + ([(DECODE, (1, 4, 8 * old))] if old else [])
        if mode == "unified":
            attention = [(UNIFIED, (tokens // 16 + requests, 8))]
        if mode == "vision" and new:
            patches = 256 * len(new)
            t.copy("HtoD", 588 * 4 * patches)
            image = []
            for _ in range(6):
                image += [(NORM, (patches,), 3), (GEMM, (132,), 8), (VISION, (2, 16, len(new)), 9), (GEMM, (64,), 6), (NORM, (patches,), 3),
                          (GEMM, (132,), 9), (GEMM, (132,), 9)]
            t.launch(image + [(GEMM, (64,), 7)])
            truth("encode", patches, None)
        body = [(GATHER, (rows, 2), 3)] + layers(rows, attention) + [(NORM, (rows,), 3)]
        if graph:
            t.replay(body + [(GEMM, (132,), 90), (ARGMAX, (rows,), 9)])
        else:
            t.launch(body + [(GATHER, (requests, 2), 3), (GEMM, (132,), 90), (ARGMAX, (requests,), 9)])
        t.copy("DtoH", 8 * requests, stream=20, wait=True)
        t.now += 30 * t.rng.random()
        truth("mixed" if new and old else "prefill" if new else "decode", tokens, requests)


def loop(t, truth):
    for _ in range(t.steps or 120):
        t.launch([("void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024>(cublasGemvParams)", (256,), 20),
                  ("cupy_power__float32_float_float32", (16,), 3), ("cupy_sum", (1,), 4), ("cupy_true_divide", (16,), 3)])
        t.copy("DtoH", 4, wait=True)


def train(t, truth):
    for _ in range(t.steps or 40):
        t.copy("HtoD", 8192)
        t.launch([(GATHER, (1024, 2), 3)] + layers(1024, [(PREFILL, (16, 1, 8))], 4) + [(GEMM, (132,), 90)])
        for _ in range(4):
            t.launch([("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>(Flash_bwd_params)", (16, 1, 8), 30), (GEMM, (132,), 20)])
        t.launch([("void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4>>(...)", (300,), 40)])
        t.copy("DtoH", 4, wait=True)


def main():
    scene, trace_path, truth_path = sys.argv[1:4]
    seed, steps = (int(a) for a in (sys.argv[4:] + ["1", "0"][len(sys.argv) - 4:]))
    t, lines = Trace(seed, steps), []

    def truth(kind, tokens, requests):
        lines.append(json.dumps(dict(kind=kind, tokens=tokens, requests=requests)))

    if scene in ("server", "mixed", "padded", "unified", "vision"):
        server(t, truth, scene)
    else:
        {"llama": llama, "bench": lambda *a: llama(*a, bench=True), "sampled": lambda *a: llama(*a, bench=True, slower=50),
         "loop": loop, "train": train}[scene](t, truth)
    t.write(trace_path)
    with open(truth_path, "w") as f:
        f.write("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
