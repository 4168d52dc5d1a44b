"""A DeepSeek-OCR-class model: SAM ViT-B, CLIP-L, projector and a mixture-of-experts decoder, built from config.json.

Structure, shapes and weight names are the published ones, so that a measurement with random weights runs the real
pipeline. The experts run one after the other, as in the vendor's eager code. For correct answers with a real checkpoint,
use the vendor's code (trust_remote_code).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

IMAGE_ID = 128815


# ---- attention: q, k, v [batch, heads, tokens, head size]

def sdpa_attention(q, k, v, mask=None, causal=False):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


def eager_attention(q, k, v, mask=None, causal=False):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + mask
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1, dtype=torch.float32).to(q.dtype) @ v


def flash_attention(q, k, v, mask=None, causal=False):
    """FlashAttention has no bias, which the attention of SAM needs."""
    if mask is not None:
        return sdpa_attention(q, k, v, mask)
    from flash_attn import flash_attn_func
    return flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal).transpose(1, 2)


ATTENTION = {None: sdpa_attention, "sdpa": sdpa_attention, "eager": eager_attention, "flash_attention_2": flash_attention}


def attention_named(name):
    """Raises ValueError for an unknown name, and ImportError if the package is missing."""
    if name not in ATTENTION:
        raise ValueError(f"attn_implementation '{name}': expected auto, sdpa, eager or flash_attention_2")
    if name == "flash_attention_2":
        import flash_attn  # noqa: F401
    return ATTENTION[name]


class Attends(nn.Module):
    attend = staticmethod(sdpa_attention)  # replaced in the whole model by its attn_implementation


class SamAttention(Attends):
    def __init__(self, dim, heads, side):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.rel_pos_h = nn.Parameter(torch.zeros(2 * side - 1, dim // heads))
        self.rel_pos_w = nn.Parameter(torch.zeros(2 * side - 1, dim // heads))

    def table(self, rel, side):  # [side, side, head_dim], resampled if the grid has a different size
        want = 2 * side - 1
        if rel.shape[0] != want:
            rel = F.interpolate(rel.float().t()[None], size=want, mode="linear")[0].t().to(rel.dtype)
        i = torch.arange(side, device=rel.device)
        return rel[i[:, None] - i[None, :] + side - 1]

    def forward(self, x):  # [B, side, side, dim]
        b, side, _, dim = x.shape
        n, hd = side * side, dim // self.heads
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, hd).permute(2, 0, 3, 1, 4)
        grid = q.reshape(b, self.heads, side, side, hd)
        bias_h = torch.einsum("bnhwc,hkc->bnhwk", grid, self.table(self.rel_pos_h, side))
        bias_w = torch.einsum("bnhwc,wkc->bnhwk", grid, self.table(self.rel_pos_w, side))
        bias = (bias_h[..., :, None] + bias_w[..., None, :]).reshape(b, self.heads, n, n)
        out = self.attend(q, k, v, mask=bias)
        return self.proj(out.transpose(1, 2).reshape(b, side, side, dim))


class SamBlock(nn.Module):
    def __init__(self, dim, heads, window, side):
        super().__init__()
        self.window = window
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = SamAttention(dim, heads, window or side)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.ModuleDict({"lin1": nn.Linear(dim, 4 * dim), "lin2": nn.Linear(4 * dim, dim)})

    def windowed(self, x):
        b, g, _, c = x.shape
        w, pad = self.window, -g % self.window
        x = F.pad(x, (0, 0, 0, pad, 0, pad))
        n = (g + pad) // w
        x = x.reshape(b, n, w, n, w, c).transpose(2, 3).reshape(-1, w, w, c)
        x = self.attn(x).reshape(b, n, n, w, w, c).transpose(2, 3).reshape(b, g + pad, g + pad, c)
        return x[:, :g, :g]

    def forward(self, x):
        y = self.norm1(x)
        x = x + (self.windowed(y) if self.window else self.attn(y))
        return x + self.mlp["lin2"](F.gelu(self.mlp["lin1"](self.norm2(x))))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):  # [B, C, H, W]
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Sam(nn.Module):
    def __init__(self, c):
        super().__init__()
        dim, side = c["width"], 64
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, 16, 16)})
        self.pos_embed = nn.Parameter(torch.zeros(1, side, side, dim))
        self.blocks = nn.ModuleList(
            SamBlock(dim, c["heads"], 0 if i in c["global_attn_indexes"] else 14, side) for i in range(c["layers"]))
        self.neck = nn.Sequential(nn.Conv2d(dim, 256, 1, bias=False), ChannelNorm(256, eps=1e-6),
                                  nn.Conv2d(256, 256, 3, padding=1, bias=False), ChannelNorm(256, eps=1e-6))
        a, b = c["downsample_channels"]
        self.net_2 = nn.Conv2d(256, a, 3, 2, 1, bias=False)
        self.net_3 = nn.Conv2d(a, b, 3, 2, 1, bias=False)

    def positions(self, g, dtype):
        p = self.pos_embed
        if p.shape[1] == g:
            return p
        p = F.interpolate(p.permute(0, 3, 1, 2).float(), size=(g, g), mode="bicubic", antialias=True)
        return p.permute(0, 2, 3, 1).to(dtype)

    def forward(self, pixels):  # [B, 3, S, S] -> [B, 1024, S/64, S/64]
        x = self.patch_embed["proj"](pixels).permute(0, 2, 3, 1)
        x = x + self.positions(x.shape[1], x.dtype)
        for block in self.blocks:
            x = block(x)
        return self.net_3(self.net_2(self.neck(x.permute(0, 3, 1, 2))))


class ClipLayer(Attends):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.layer_norm1 = nn.LayerNorm(dim, eps=1e-5)
        self.layer_norm2 = nn.LayerNorm(dim, eps=1e-5)
        self.self_attn = nn.ModuleDict({"qkv_proj": nn.Linear(dim, 3 * dim), "out_proj": nn.Linear(dim, dim)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(dim, 4 * dim), "fc2": nn.Linear(4 * dim, dim)})

    def forward(self, x):  # [B, T, dim]
        b, t, dim = x.shape
        qkv = self.self_attn["qkv_proj"](self.layer_norm1(x)).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = self.attend(*qkv).transpose(1, 2).reshape(b, t, dim)
        x = x + self.self_attn["out_proj"](y)
        y = self.mlp["fc1"](self.layer_norm2(x))
        return x + self.mlp["fc2"](y * torch.sigmoid(1.702 * y))


class Clip(nn.Module):
    def __init__(self, c):
        super().__init__()
        dim = c["width"]
        self.class_embedding = nn.Parameter(torch.zeros(dim))
        self.position_embedding = nn.Embedding(257, dim)
        self.pre_layrnorm = nn.LayerNorm(dim, eps=1e-5)
        self.layers = nn.ModuleList(ClipLayer(dim, c["heads"]) for _ in range(c["layers"]))

    def positions(self, side, dtype):
        p = self.position_embedding.weight
        if side == 16:
            return p
        grid = p[1:].reshape(1, 16, 16, -1).permute(0, 3, 1, 2).float()
        grid = F.interpolate(grid, size=(side, side), mode="bicubic", antialias=True)
        return torch.cat([p[:1], grid.permute(0, 2, 3, 1).reshape(side * side, -1).to(dtype)])

    def forward(self, sam):  # [B, 1024, n, n] -> [B, n*n, 1024]
        x = sam.flatten(2).transpose(1, 2)
        x = torch.cat([self.class_embedding.expand(x.shape[0], 1, -1), x], dim=1)
        x = self.pre_layrnorm(x + self.positions(sam.shape[-1], x.dtype))
        for layer in self.layers:
            x = layer(x)
        return x[:, 1:]


class RmsNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Mlp(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.gate_proj = nn.Linear(dim, width, bias=False)
        self.up_proj = nn.Linear(dim, width, bias=False)
        self.down_proj = nn.Linear(width, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Moe(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.k = c.num_experts_per_tok
        self.gate = nn.Linear(c.hidden_size, c.n_routed_experts, bias=False)
        self.experts = nn.ModuleList(Mlp(c.hidden_size, c.moe_intermediate_size) for _ in range(c.n_routed_experts))
        self.shared_experts = Mlp(c.hidden_size, c.moe_intermediate_size * c.n_shared_experts)

    def forward(self, x):  # [B, T, D]
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(self.gate(flat).softmax(-1, dtype=torch.float32), self.k, dim=-1)
        order = chosen.reshape(-1).argsort()
        counts = chosen.reshape(-1).bincount(minlength=len(self.experts)).tolist()  # a host sync, as in the eager code
        rows = flat[order // self.k]
        outs, at = [], 0
        for expert, n in zip(self.experts, counts):
            if n:
                outs.append(expert(rows[at:at + n]))
            at += n
        y = torch.empty_like(rows)
        y[order] = torch.cat(outs)
        y = (y.reshape(-1, self.k, y.shape[-1]).float() * weights[..., None]).sum(1).to(x.dtype)
        return y.reshape(x.shape) + self.shared_experts(x)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Layer(Attends):
    def __init__(self, c, index):
        super().__init__()
        d = c.hidden_size
        self.index, self.heads, self.head_dim = index, c.num_attention_heads, d // c.num_attention_heads
        self.input_layernorm = RmsNorm(d, c.rms_norm_eps)
        self.post_attention_layernorm = RmsNorm(d, c.rms_norm_eps)
        self.self_attn = nn.ModuleDict({n: nn.Linear(d, d, bias=False) for n in ("q_proj", "k_proj", "v_proj", "o_proj")})
        self.mlp = Mlp(d, c.intermediate_size) if index < c.first_k_dense_replace else Moe(c)

    def attention(self, x, cos, sin, cache):
        b, t, d = x.shape
        q, k, v = (self.self_attn[n](x).reshape(b, t, self.heads, self.head_dim).transpose(1, 2)
                   for n in ("q_proj", "k_proj", "v_proj"))
        k, v = cache.update(rotate(k, cos, sin), v, self.index)
        y = self.attend(rotate(q, cos, sin), k, v, causal=t > 1)
        return self.self_attn["o_proj"](y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x, cos, sin, cache):
        x = x + self.attention(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class DsocrConfig(PretrainedConfig):
    model_type = "inferprof_dsocr"


class DsocrForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = DsocrConfig
    _supports_sdpa = True
    main_input_name = "input_ids"
    _no_split_modules = ["Layer"]

    def __init__(self, config, attend=sdpa_attention):
        super().__init__(config)
        c, vision = config, config.vision_width
        self.sam_model = Sam(vision["sam"])
        self.vision_model = Clip(vision["clip"])
        self.projector = nn.Linear(config.projector_in, c.hidden_size)
        self.image_newline = nn.Parameter(torch.zeros(c.hidden_size))
        self.view_seperator = nn.Parameter(torch.zeros(c.hidden_size))
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c.num_hidden_layers))
        self.norm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        for module in self.modules():
            if isinstance(module, Attends):
                module.attend = attend

    def _init_weights(self, module):
        pass  # the worker fills the weights

    def view_rows(self, pixels):  # [B, 3, S, S] -> [B, n, n, D]
        sam = self.sam_model(pixels)
        clip = self.vision_model(sam)
        n = sam.shape[-1]
        return self.projector(torch.cat([clip, sam.flatten(2).transpose(1, 2)], dim=-1)).unflatten(1, (n, n))

    def with_newlines(self, grid):  # [rows, cols, D] -> [rows * (cols + 1), D]
        newline = self.image_newline.expand(grid.shape[0], 1, -1)
        return torch.cat([grid, newline], dim=1).flatten(0, 1)

    def image_rows(self, view, tiles, grid):
        parts = []
        if tiles is not None:
            w, h = grid
            local = self.view_rows(tiles)  # tiles row-major: [h*w, n, n, D]
            n = local.shape[1]
            parts.append(self.with_newlines(local.reshape(h, w, n, n, -1).permute(0, 2, 1, 3, 4).reshape(h * n, w * n, -1)))
        parts.append(self.with_newlines(self.view_rows(view)[0]))
        parts.append(self.view_seperator[None])
        return torch.cat(parts)

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, images=None, use_cache=True,
                logits_to_keep=0, **ignored):
        cache = past_key_values if past_key_values is not None else DynamicCache()
        x = self.embed_tokens(input_ids)
        start = cache.get_seq_length()
        if images and start == 0:
            rows = torch.cat([self.image_rows(*image) for image in images])
            x = x.masked_scatter((input_ids == self.config.image_id)[..., None], rows.to(x.dtype)[None])
        half = self.layers[0].head_dim // 2
        freq = self.config.rope_theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angle = torch.arange(start, start + x.shape[1], device=x.device, dtype=torch.float32)[:, None] * freq
        cos, sin = (torch.cat([f(angle)] * 2, dim=-1).to(x.dtype) for f in (torch.cos, torch.sin))
        for layer in self.layers:
            x = layer(x, cos, sin, cache)
        x = self.norm(x)
        return CausalLMOutputWithPast(logits=self.lm_head(x[:, -max(1, logits_to_keep):]), past_key_values=cache)

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, images=None, **kwargs):
        seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        return {"input_ids": input_ids[:, seen:], "past_key_values": past_key_values, "images": images if seen == 0 else None,
                "use_cache": True}


def config_from_json(raw):
    """Reads the released config.json: text fields at the top level or under language_config."""
    text = {**raw, **raw.get("language_config", {})}
    width = raw.get("vision_config", {}).get("width", {})
    sam, clip = width.get("sam_vit_b", {}), width.get("clip-l-14-224", {})
    sam = {"width": 768, "layers": 12, "heads": 12, "global_attn_indexes": [2, 5, 8, 11],
           "downsample_channels": [512, 1024], **sam}
    clip = {"width": 1024, "layers": 24, "heads": 16, **clip}
    keep = {"hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10, "intermediate_size": 6848,
            "moe_intermediate_size": 896, "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
            "first_k_dense_replace": 1, "vocab_size": 129280, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "max_position_embeddings": 8192}
    fields = {k: text[k] if text.get(k) is not None else v for k, v in keep.items()}
    return DsocrConfig(**fields, vision_width={"sam": sam, "clip": clip}, image_id=min(IMAGE_ID, fields["vocab_size"] - 1),
                       projector_in=sam["downsample_channels"][1] + clip["width"], eos_token_id=1, bos_token_id=0,
                       tie_word_embeddings=False)


# ---- pages to views: a view of the whole page, and tiles

# base_size (the view if the page is cropped), image_size (a tile, or the only view), crop_mode

MODES = {"tiny": (512, 512, False), "small": (640, 640, False), "base": (1024, 1024, False), "large": (1280, 1280, False),
         "gundam": (1024, 640, True)}


def tile_grid(width, height, max_tiles, side):
    best, best_d = (1, 1), math.inf
    cells = [(w, h) for w in range(1, max_tiles + 1) for h in range(1, max_tiles + 1) if 2 <= w * h <= max_tiles]
    for w, h in sorted(cells, key=lambda c: c[0] * c[1]):
        d = abs(width / height - w / h)
        if d < best_d or (d == best_d and width * height > 0.5 * side * side * w * h):
            best, best_d = (w, h), d
    return best


def tensor_of(image, device, dtype):
    import numpy
    x = torch.from_numpy(numpy.asarray(image, dtype=numpy.uint8).copy()).to(device)
    return ((x.permute(2, 0, 1).float() / 255 - 0.5) / 0.5).to(dtype)


def sizes_of(options):
    """(base_size, image_size, crop_mode) of a request's `image`: those of the mode, or its own."""
    mode = options.get("mode") or "gundam"
    if mode not in MODES:
        raise ValueError(f"unknown image mode '{mode}': expected one of " + ", ".join(MODES))
    base, size, crop = MODES[mode]
    base, size = int(options.get("base_size") or base), int(options.get("image_size") or size)
    for name, side in (("base_size", base), ("image_size", size)):
        if side % 64 or not 64 <= side <= 4096:
            raise ValueError(f"{name}={side}: expected a multiple of 64 from 64 to 4096")
    return base, size, crop if options.get("crop_mode") is None else bool(options["crop_mode"])


def views_of(path, sizes, max_tiles, device, dtype):
    """Returns (global view [1,3,S,S], tiles [n,3,T,T] or None, grid (w, h))."""
    from PIL import Image, ImageOps
    base, size, crop = sizes
    with Image.open(path) as opened:
        image = ImageOps.exif_transpose(opened).convert("RGB")
    if not crop and size <= 640:
        view = image.resize((size, size), Image.BICUBIC)
    else:
        side = base if crop else size
        view = ImageOps.pad(image, (side, side), Image.BICUBIC, color=(127, 127, 127))
    tiles, grid = None, (0, 0)
    if crop and (image.width > size or image.height > size):
        w, h = grid = tile_grid(image.width, image.height, max_tiles, size)
        sheet = image.resize((size * w, size * h), Image.BICUBIC)
        boxes = [(size * (i % w), size * (i // w)) for i in range(w * h)]
        tiles = torch.stack([tensor_of(sheet.crop((x, y, x + size, y + size)), device, dtype) for x, y in boxes])
    return tensor_of(view, device, dtype)[None], tiles, grid


def rows_of(view, tiles, grid):
    """Returns the number of sequence positions of these views."""
    n = view.shape[-1] // 64
    w, h = grid
    t = tiles.shape[-1] // 64 if tiles is not None else 0
    return n * (n + 1) + 1 + t * h * (t * w + 1 if t else 0)
