#!/usr/bin/env python3
"""Writes tests/data/tokenizer/pieces.gguf.gz, a SentencePiece vocabulary (BPE, byte fallback) in a GGUF file, and
pieces.ids.gz, checksums of SentencePiece's ids of every string of strings.gz, as in the other files. Needs gguf and sentencepiece (PyPI).
usage: gguf_vocabulary.py FOLDER"""
import gzip
import io
import os
import struct
import sys
import tempfile
import zlib

import gguf
import sentencepiece as spm

folder = sys.argv[1]
raw = gzip.open(os.path.join(folder, "strings.gz")).read()
strings, at = [], 0
while at < len(raw):
    n = struct.unpack_from("<I", raw, at)[0]
    strings.append(raw[at + 4:at + 4 + n])
    at += 4 + n
texts = [s.decode("utf-8", "replace") for s in strings]
model = io.BytesIO()
spm.SentencePieceTrainer.train(
    sentence_iterator=iter([t for t in texts if "\n" not in t and "\0" not in t and t.strip() and max(t) < "\u0400"]), model_writer=model,
    vocab_size=1500, model_type="bpe", byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
    remove_extra_whitespaces=False, add_dummy_prefix=True, max_sentence_length=1 << 20, hard_vocab_limit=False,
    split_by_whitespace=True, bos_piece="<bos of pieces>", eos_piece="<eos of pieces>", unk_piece="<unk of pieces>")
sp = spm.SentencePieceProcessor(model_proto=model.getvalue())
kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1 for i in range(len(sp))]
with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "v.gguf")
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("llama")
    w.add_token_list([sp.id_to_piece(i) for i in range(len(sp))])
    w.add_token_scores([sp.get_score(i) for i in range(len(sp))])
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    with open(path, "rb") as f, open(os.path.join(folder, "pieces.gguf.gz"), "wb") as out:
        out.write(gzip.compress(f.read(), 9, mtime=0))
sums = b"".join(struct.pack("<H", zlib.crc32(struct.pack("<%dI" % len(ids), *ids)) & 0xffff)
                for ids in (sp.encode(t) for t in texts))
with open(os.path.join(folder, "pieces.ids.gz"), "wb") as out:
    out.write(gzip.compress(sums, 9, mtime=0))
