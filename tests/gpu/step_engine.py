"""The native engine on a GPU, without records of its own; logs the truth about its steps, from its replies.

    inferprof run -- python3 tests/gpu/step_engine.py INFERPROF CONFIG.json TRUTH.jsonl [KEY=VALUE...]

KEY=VALUE changes the configuration: num_hidden_layers=4. The weights are random.
"""
import json
import os
import subprocess
import sys
import tempfile

REQUESTS = [(37, 24), (300, 40), (64, 24), (100, 1), (5, 30)]  # prompt tokens, new tokens


def main():
    program, path, truth = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        doc = json.load(open(path))
        doc.update((k, json.loads(v)) for k, v in (a.split("=") for a in sys.argv[4:]))
        json.dump(doc, open(os.path.join(folder, "config.json"), "w"))
        lines = [dict(op="load", model=folder, weights="synthetic:1", device="cuda:0", max_context=2048)]
        lines += [dict(op="infer", prompt_ids=[3 + i % 500 for i in range(prompt)], max_new_tokens=new, ignore_eos=True)
                  for prompt, new in REQUESTS]
        text = "".join(json.dumps(x) + "\n" for x in lines)
        done = subprocess.run([program, "engine"], input=text, stdout=subprocess.PIPE, universal_newlines=True, check=True)
    replies = [json.loads(x) for x in done.stdout.splitlines()]
    with open(truth, "w") as log:
        for r in replies:
            if r.get("error"):
                sys.exit("%s: %s" % (r["op"], r["error"]))
            if r["op"] != "infer":
                continue
            log.write(json.dumps(dict(kind="prefill", requests=1, tokens=r["prompt_tokens"], made=1)) + "\n")
            for _ in range(r["new_tokens"] - 1):
                log.write(json.dumps(dict(kind="decode", requests=1, tokens=1, made=1)) + "\n")
            print("%d prompt tokens, %d new ones, %.3f ms per token" %
                  (r["prompt_tokens"], r["new_tokens"], r["decode_ms"] / max(r["new_tokens"] - 1, 1)), flush=True)


if __name__ == "__main__":
    main()
