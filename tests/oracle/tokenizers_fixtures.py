#!/usr/bin/env python3
"""Makes tests/data/tokenizer: small trained vocabularies and the results of Hugging Face `tokenizers` with them.

    python3 tests/oracle/tokenizers_fixtures.py [TEXT_FILE...]      needs the tokenizers package

strings.gz    every test string: u32 length, bytes (UTF-8)
NAME.json.gz  a tokenizer.json
NAME.ids.gz   one u16 per string: the low half of crc32 over its ids as u32, without special tokens added
NAME.txt.gz   for some lists of ids: u32 count, the ids; u32 length, the text with specials; u32 length, without
TEXT_FILEs are more text to train on; the vocabularies in the tree were trained on inferprof's own documents.
"""
import gzip
import json
import os
import random
import struct
import sys
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tokenizer")
MARK = "\u2581"

WORDS = ("the of and to in is you that it he was for on are as with his they I at be this have from or one had by word "
         "but not what all were we when your can said there use an each which she do how their if will up other about "
         "out many then them these so some her would make like him into time has look two more write go see number no "
         "way could people my than first water been call who oil its now find long down day did get come made may part "
         "Kernel tensor attention prefill decode cache tokens latency GPU memory bandwidth table figure Invoice Total "
         "don't I'll we've they're it's he'd I'M YOU'RE can't o'clock naïve café Zürich façade coöperate résumé "
         "int main void return struct for(i=0;i<n;i++) x==y a->b foo_bar camelCase HTTPServer 3.14159 1,234,567 "
         "2024-01-31 12:34:56 100% $9.99 #hash @name https://example.org/a?b=c&d=e user@example.com C:\\dir\\file").split()
FOREIGN = ("привет мир как дела сегодня 你好 世界 今天天气很好 我们 的 是 不 了 日本語 です ます カタカナ ひらがな 東京 "
           "안녕하세요 세계 한국어 مرحبا بالعالم नमस्ते दुनिया สวัสดี γειά σου κόσμε שלום עולם Đặng Việt Nam ẞtraße "
           "œuvre ﬁne ①②③ Ⅷ ½ ² ٣٤٥ १२३ １２３ ＡＢＣ «quoted» „so“ …— – • © ™ € £ ¥ ∑∫√ ≤≥ → ⇒ 😀 👩‍👩‍👧 🇩🇪 👍🏽 ✓").split()
ADDED = ["<image>", "<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>", "<|grounding|>", "<td>", "</td>", "<tr>", "</tr>",
         "<｜User｜>", "<｜Assistant｜>", "<|User|>", "<s>", "</s>", "<unk>", "<|endoftext|>", "<|begin_of_text|>",
         "<|im_start|>", "<|im_end|>", "<mask>", "[X]", "[XY]", "solo", "<0x41>", "<0xE4>", "<a b>", "é-token"]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", " \n", "\n ", "\u00a0", "\u3000", "\u2009",
          "\u180e", "\u0085", "\u200b", "\u2028", "\x0b", "\x0c", "\x1f", "        "]
RANGES = [(0x20, 0x7e), (0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x45f), (0x5d0, 0x5ea),
          (0x620, 0x64a), (0x660, 0x669), (0x905, 0x939), (0xe01, 0xe2e), (0x1100, 0x1112), (0x1161, 0x1175),
          (0x11a8, 0x11c2), (0x1e00, 0x1eff), (0x2010, 0x2027), (0x2030, 0x205e), (0x20a0, 0x20bf), (0x2100, 0x214f),
          (0x2150, 0x218b), (0x2190, 0x23ff), (0x2500, 0x27bf), (0x3001, 0x303f), (0x3041, 0x3096), (0x30a1, 0x30fa),
          (0x4e00, 0x9fa5), (0x9fa6, 0x9fcc), (0xac00, 0xd7a3), (0xf900, 0xfa6d), (0xff01, 0xff5e), (0x1d400, 0x1d454),
          (0x1f300, 0x1f5ff), (0x1f600, 0x1f64f), (0x20000, 0x20100), (0x0, 0x1f)]

HAND = ["", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "Hello, world!", "123456", "Page 1 of 100, section 42.7.3",
        "<|ref|>title<|/ref|><|det|>[[10, 20, 300, 400]]<|/det|>", "你好，世界！", "中文<image>日本語",
        "<table><tr><td>A</td><td>B</td></tr></table>", "<image>\n<|grounding|>Convert the document to markdown.",
        "a" * 300, "ab" * 200, " " * 100, "\n" * 50, "1" * 40, "你" * 80, "e\u0301", "\u1100\u1161\u11a8", "\ufffd",
        "<image", "<image><image>", "<<image>>", " <image> ", "<|ref|", "x<mask>y", "x <mask> y", "[X][XY][XYZ]",
        "solo", " solo ", "soloist", "unsolo", "solo!", "_solo", "é solo é", "solo\u0301", "<a b>", "x<a b>y", "é-token",
        "I'M 'S 'ſ 'll 'LL they'Re", "a\u00a0b\u3000c", "\u180e\u180e x", "x\u0085y", "\u0000\u0001", "\u2028\u2029",
        "  leading", "trailing  ", "a  b   c", "tab\tsep", "line\nbreak\r\nwin\rmac", "e\u0301\u0323 \u0323\u0301e", "Å Å Å",
        "\u212b\u2126\u1e9b\u0323", "\u0344", "한\u1112\u1161\u11ab", "\uac00\u11a8", "\u0958", "\ufb1d", "👩‍👩‍👧‍👦", "🏳️‍🌈", "<0x41>", "<0x0A>", MARK, MARK * 3, f" {MARK}x", "##x", "x</w>"]


def random_string(rnd):
    out = []
    for _ in range(rnd.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 8))):
        kind = rnd.random()
        if kind < 0.40:
            word = rnd.choice(WORDS)
            out.append(rnd.choice((word, word, word.upper(), word.capitalize())))
        elif kind < 0.55:
            out.append(rnd.choice(FOREIGN))
        elif kind < 0.63:
            out.append(rnd.choice(ADDED))
        elif kind < 0.72:
            out.append(str(rnd.randint(0, 10 ** rnd.randint(1, 9))))
        elif kind < 0.82:
            low, high = rnd.choice(RANGES)
            out.append("".join(chr(rnd.randint(low, high)) for _ in range(rnd.randint(1, 4))))
        elif kind < 0.90:
            out.append("".join(rnd.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rnd.randint(1, 4))))
        else:
            out.append("".join(chr(rnd.randint(*rnd.choice(RANGES))) for _ in range(rnd.randint(1, 5))))
        if rnd.random() < 0.75:
            out.append(rnd.choice(SPACES))
    return "".join(out)


def byte_level_trainer(size, special):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def byte_level(split, size, special=(), normalizer=None, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = split
    t.decoder = decoders.ByteLevel()
    return t, byte_level_trainer(size, list(special))


DEEPSEEK = [Regex(r"\p{N}{1,3}"), Regex("[一-龥\u3040-ゟ゠-ヿ]+"),
            Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")


def build_gpt2(prefix):
    t, trainer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=prefix), 900, ["<|endoftext|>"])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t, trainer, [AddedToken("<mask>", lstrip=True, rstrip=False, special=True)] if prefix else []


def build_deepseek():
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(p, "isolated") for p in DEEPSEEK] +
                                    [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t, trainer = byte_level(split, 1600, ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"])
    added = [AddedToken(a, normalized=False, special=a[1] not in "｜") for a in ADDED[:13]]
    return t, trainer, added


def build_llama3():
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t, trainer = byte_level(split, 1400, ignore_merges=True)
    return t, trainer, [AddedToken("<|begin_of_text|>", special=True), AddedToken("<|eot_id|>", special=True)]


def build_qwen2():
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t, trainer = byte_level(split, 1400, normalizer=normalizers.NFC())
    return t, trainer, [AddedToken(a, special=True) for a in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]


SP_SPECIAL = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]


def sentencepiece(size, **model):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, **model))
    t.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    return t, trainers.BpeTrainer(vocab_size=size, special_tokens=SP_SPECIAL, show_progress=False, limit_alphabet=150,
                                  max_token_length=16)


def build_llama2():
    t, trainer = sentencepiece(1500)
    t.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    return t, trainer, []


def build_mistral():
    t, trainer = sentencepiece(1500)
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="first", split=False)
    return t, trainer, [AddedToken("[X]", special=True), AddedToken("[XY]", special=True)]


O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def build_o200k():
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(O200K), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t, trainer = byte_level(split, 1200, ["<|endoftext|>"])
    return t, trainer, []


def build_gemma():
    t, trainer = sentencepiece(1300)
    t.normalizer = normalizers.Replace(" ", MARK)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    return t, trainer, [AddedToken("\n\n", normalized=False), AddedToken("<td>", normalized=False)]


def build_metaspace():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Replace(Regex("\\p{Mn}+"), ""),
                                         normalizers.Strip(left=False, right=True)])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always"),
                                               pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.Punctuation(behavior="contiguous")])
    t.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>"], show_progress=False, limit_alphabet=120)
    return t, trainer, [AddedToken("solo", single_word=True), AddedToken("<mask>", lstrip=True, rstrip=True, special=True),
                        AddedToken("é-token", normalized=True), AddedToken("[X]", rstrip=True, normalized=False),
                        AddedToken("<a b>", normalized=True, special=True)]


def build_behaviours():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex("[.,;:]+"), "merged_with_previous"), pre_tokenizers.Split("-", "merged_with_next"),
        pre_tokenizers.Split(Regex("\\s+"), "removed"), pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Split(Regex("[A-Za-z]+"), "contiguous", invert=True), pre_tokenizers.Split(Regex("_+|(?=[A-Z])"), "isolated")])
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>"], show_progress=False, limit_alphabet=120)
    return t, trainer, []


def build_suffix():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="##"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>"], show_progress=False, limit_alphabet=100,
                                  end_of_word_suffix="</w>", continuing_subword_prefix="##")
    return t, trainer, []


BUILDERS = {"gpt2": lambda: build_gpt2(False), "gpt2_prefix": lambda: build_gpt2(True), "deepseek": build_deepseek,
            "llama3": build_llama3, "qwen2": build_qwen2, "llama2": build_llama2, "mistral": build_mistral,
            "o200k": build_o200k, "gemma": build_gemma, "metaspace": build_metaspace, "behaviours": build_behaviours, "suffix": build_suffix}


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(gzip.compress(data, 9, mtime=0))


def special_around(t, name):
    """A post-processor that adds BOS, as in real files."""
    bos = {"llama2": "<s>", "mistral": "<s>", "llama3": "<|begin_of_text|>"}.get(name)
    if bos:
        t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=None, special_tokens=[(bos, t.token_to_id(bos))])


def old_merges(text):
    """Merges as "a b", the form in files before 2024."""
    j = json.loads(text)
    j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
    return json.dumps(j, ensure_ascii=False)


def decode_cases(t, strings, rnd):
    out = b""
    for i in range(250):
        n = rnd.randint(0, 12)
        ids = t.encode(rnd.choice(strings), add_special_tokens=True).ids if i % 2 else []
        ids = ids[:40] + [rnd.randrange(t.get_vocab_size()) for _ in range(n if i % 2 == 0 else 0)]
        # `tokenizers` loses the accent of an added token that its normalizer strips; inferprof keeps it
        ids = [i for i in ids if t.id_to_token(i) != "e-token" and t.id_to_token(i) != "é-token"]
        out += struct.pack(f"<I{len(ids)}I", len(ids), *ids)
        for skip in (False, True):
            text = t.decode(ids, skip_special_tokens=skip).encode()
            out += struct.pack("<I", len(text)) + text
    return out


def main():
    os.makedirs(OUT, exist_ok=True)
    rnd = random.Random(4)
    strings = HAND + [random_string(rnd) for _ in range(10_150)]
    write("strings.gz", b"".join(struct.pack("<I", len(s.encode())) + s.encode() for s in strings))
    corpus = [random_string(rnd) for _ in range(4000)]
    for path in sys.argv[1:]:
        corpus += open(path, encoding="utf-8").read().split("\n")
    for name, build in BUILDERS.items():
        t, trainer, added = build()
        t.train_from_iterator(corpus, trainer)
        t.add_tokens(added)
        t.add_special_tokens([a for a in added if a.special])
        special_around(t, name)
        text = t.to_str()
        text = old_merges(text) if name in ("deepseek", "gpt2") else text
        t = Tokenizer.from_str(text)  # the file's content, not the object that was built
        write(f"{name}.json.gz", text.encode())
        encoded = t.encode_batch(strings, add_special_tokens=False)
        write(f"{name}.ids.gz", b"".join(struct.pack("<H", zlib.crc32(struct.pack(f"<{len(e.ids)}I", *e.ids)) & 0xFFFF)
                                         for e in encoded))
        write(f"{name}.txt.gz", decode_cases(t, strings, rnd))


if __name__ == "__main__":
    main()
