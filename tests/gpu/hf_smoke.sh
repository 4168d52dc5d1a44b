#!/bin/bash
# hf_smoke.sh: runs the Hugging Face engine over its protocol, with a full-size DeepSeek-OCR-class model and random weights.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir -p "$WORK/ocr"
echo '{"model_type":"deepseek_vl_v2","architectures":["DeepseekOCRForCausalLM"],"torch_dtype":"bfloat16"}' >"$WORK/ocr/config.json"
"$PYTHON" - "$WORK/page.png" <<'END'
import sys
from PIL import Image, ImageDraw
im = Image.new("RGB", (1240, 1754), "white")
ImageDraw.Draw(im).rectangle([100, 100, 900, 400], fill="black")
im.save(sys.argv[1])
END
ask="{\"op\":\"infer\",\"inputs\":[\"$WORK/page.png\"],\"prompt\":\"<image>\\nFree OCR.\",\"max_new_tokens\":64,\"ignore_eos\":true}"
printf '%s\n' '{"op":"hello"}' "{\"op\":\"load\",\"model\":\"$WORK/ocr\",\"weights\":\"synthetic:1\",\"device\":\"cuda:0\"}" "$ask" "$ask" "$ask" \
    '{"op":"bye"}' | "$PYTHON" engines/hf/worker.py 2>"$WORK/hf.err" | cut -c 1-900
tail -n 5 "$WORK/hf.err"
