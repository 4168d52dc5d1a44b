"""A decode loop in JAX without annotations: one compiled step, the token is read after each. Logs the truth.

    inferprof run -- python3 tests/gpu/step_jax.py TRUTH.jsonl
"""
import json
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp

LAYERS, HIDDEN, HEADS, FFN, VOCAB, CONTEXT = 6, 1024, 8, 2816, 32000, 256
HEAD = HIDDEN // HEADS


def weights():
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 8 * LAYERS + 4))

    def w(*shape):
        return jax.random.normal(next(keys), shape, jnp.bfloat16) * 0.02

    return dict(embed=w(VOCAB, HIDDEN), lm=w(HIDDEN, VOCAB), norm=w(HIDDEN),
                layers=[dict(n1=w(HIDDEN), qkv=w(HIDDEN, 3 * HIDDEN), o=w(HIDDEN, HIDDEN), n2=w(HIDDEN), up=w(HIDDEN, 2 * FFN),
                             down=w(FFN, HIDDEN)) for _ in range(LAYERS)])


def rms(x, w):
    f = x.astype(jnp.float32)
    return (f * jax.lax.rsqrt(jnp.mean(f * f, -1, keepdims=True) + 1e-6)).astype(jnp.bfloat16) * w


def step(p, cache, ids, at):
    """ids [tokens]: appended to the cache [LAYERS, 2, CONTEXT, HEADS, HEAD] at `at`; returns the next id."""
    x, n, new = p["embed"][ids], len(ids), []
    mask = jnp.arange(CONTEXT)[None] <= (at + jnp.arange(n))[:, None]
    for i, y in enumerate(p["layers"]):
        q, k, v = jnp.split(rms(x, y["n1"]) @ y["qkv"], 3, -1)
        kv = jnp.stack([k, v]).reshape(2, n, HEADS, HEAD)
        full = jax.lax.dynamic_update_slice(cache[i], kv, (0, at, 0, 0))
        new.append(full)
        s = jnp.einsum("qhd,khd->hqk", q.reshape(n, HEADS, HEAD), full[0]).astype(jnp.float32) / HEAD ** 0.5
        a = jax.nn.softmax(jnp.where(mask[None], s, -1e30), -1).astype(jnp.bfloat16)
        x = x + jnp.einsum("hqk,khd->qhd", a, full[1]).reshape(n, HIDDEN) @ y["o"]
        g, u = jnp.split(rms(x, y["n2"]) @ y["up"], 2, -1)
        x = x + (jax.nn.silu(g) * u) @ y["down"]
    return new, jnp.argmax(rms(x[-1:], p["norm"]) @ p["lm"], -1)


def main():
    log = open(sys.argv[1], "w")
    p, run = weights(), jax.jit(step, donate_argnums=1)
    for _ in range(3):
        cache = [jnp.zeros((2, CONTEXT, HEADS, HEAD), jnp.bfloat16) for _ in range(LAYERS)]
        cache, token = run(p, cache, jnp.arange(48), 0)
        ids = [int(token[0])]
        log.write(json.dumps(dict(kind="prefill", requests=1, tokens=48, made=1)) + "\n")
        for at in range(48, 78):
            cache, token = run(p, cache, jnp.asarray(ids[-1:]), at)
            ids.append(int(token[0]))
            log.write(json.dumps(dict(kind="decode", requests=1, tokens=1, made=1)) + "\n")
    print(len(ids), "tokens each time")


if __name__ == "__main__":
    main()
