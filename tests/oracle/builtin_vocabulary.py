#!/usr/bin/env python3
"""Trains the merges of the embedded model's tokenizer: src/engine/tokenizer/builtin_data.h.

    python3 tests/oracle/builtin_vocabulary.py TEXT_FILE...        needs the tokenizers package

Only the merges are learned; ids and special tokens are laid out in src/engine/tokenizer/builtin.c.
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizers_fixtures import DEEPSEEK, WORDS

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "engine", "tokenizer", "builtin_data.h")
MERGES = 752


def page(rnd):
    """Text in the format of an OCR model's output."""
    boxes = ", ".join(f"[{rnd.randint(0, 499)}, {rnd.randint(0, 499)}, {rnd.randint(500, 999)}, {rnd.randint(500, 999)}]"
                      for _ in range(rnd.randint(1, 2)))
    words = " ".join(rnd.choice(WORDS[:150]) for _ in range(rnd.randint(4, 14)))
    cells = "".join(f"<td>{rnd.choice(WORDS)}</td>" for _ in range(3))
    return f"[[{boxes}]]\n# {words.capitalize()}\n\n{words}.\n<table><tr>{cells}</tr></table>\n\\( x_{{{rnd.randint(0, 9)}}} \\)\n"


def main():
    rnd = random.Random(11)
    corpus = [page(rnd) for _ in range(300)]
    for path in sys.argv[1:]:
        corpus += open(path, encoding="utf-8").read().split("\n")
    corpus = ["".join(c for c in text if c < "\x7f") for text in corpus]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(p, "isolated") for p in DEEPSEEK] +
                                              [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=256 + MERGES, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(corpus, trainer)
    back = {}
    spare = 256
    for b in range(256):
        own = 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255
        back[chr(b if own else spare)] = b
        spare += 0 if own else 1
    merges = [m if isinstance(m, list) else m.split(" ") for m in json.loads(t.to_str())["model"]["merges"]][:MERGES]
    number = dict(back)
    rows = []
    for i, (a, b) in enumerate(merges):
        rows.append(f"{{ {number[a]}, {number[b]} }}")
        number.setdefault(a + b, 256 + i)
    assert len(number) == 256 + MERGES, "a merge makes a token that is there already"
    with open(OUT, "w") as f:
        f.write("/* Merges of the embedded model's tokenizer, lowest rank first: numbers below 256 are bytes, 256 + i is\n")
        f.write(" * what merge i makes. Made by tests/oracle/builtin_vocabulary.py: do not edit. */\n/* clang-format off */\n")
        f.write(f"#define BUILTIN_MERGES {len(rows)}\n")
        f.write("static const unsigned short builtin_merges[BUILTIN_MERGES][2] = {\n")
        for i in range(0, len(rows), 8):
            f.write("    " + ", ".join(rows[i:i + 8]) + ",\n")
        f.write("};\n/* clang-format on */\n")


if __name__ == "__main__":
    main()
