"""Writes model folders for the tests of the Hugging Face engine, each from a config only.

    hf_models.py short-of-memory FOLDER     a llama whose fourth request runs out of memory (remote code)
"""
import json
import os
import sys

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "torch_dtype": "float32",
         "max_position_embeddings": 512}
QWEN2_MOE = {**LLAMA, "model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "moe_intermediate_size": 32,
             "shared_expert_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2}
PHI3_LONGROPE = {**LLAMA, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "num_key_value_heads": 4, "pad_token_id": 0,
                 "original_max_position_embeddings": 16, "max_position_embeddings": 64, "rope_theta": 10000.0,
                 "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.5] * 8}}
QWEN2_VL = {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"], "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "torch_dtype": "float32",
            "max_position_embeddings": 512, "image_token_id": 290, "video_token_id": 291, "vision_start_token_id": 292,
            "vision_end_token_id": 293, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
            "vision_config": {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14,
                              "spatial_merge_size": 2, "temporal_patch_size": 2}}
OCR = {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"], "torch_dtype": "float32",
       "language_config": {"hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, "num_hidden_layers": 3,
                           "num_attention_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "vocab_size": 400},
       "vision_config": {"width": {"sam_vit_b": {"width": 48, "layers": 3, "heads": 4, "global_attn_indexes": [2],
                                                 "downsample_channels": [32, 64]},
                                   "clip-l-14-224": {"width": 64, "layers": 2, "heads": 4}}}}

SHORT_OF_MEMORY = '''
import torch
from transformers import LlamaForCausalLM

class ShortOfMemory(LlamaForCausalLM):
    requests = 0

    def forward(self, input_ids=None, **kwargs):
        if input_ids.shape[1] > 1:
            ShortOfMemory.requests += 1
            if ShortOfMemory.requests == 4:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\\nMore about it.")
        return super().forward(input_ids=input_ids, **kwargs)
'''

# Imitates the interface of the vendor's code: it reads the first view even without a page, passes page N to row N, requires the
# grid on the CPU, and moves its mask to CUDA itself. Not all of its norms have "norm" in their names.
REMOTE_OCR = '''
import torch
from transformers import LlamaConfig, LlamaForCausalLM

class RemoteOcrConfig(LlamaConfig):
    model_type = "RemoteOcr"

class RemoteOcr(LlamaForCausalLM):
    config_class = RemoteOcrConfig

    def __init__(self, config):
        super().__init__(config)
        self.model.sam_model = torch.nn.Sequential(torch.nn.Conv2d(3, 1, 640, 640), torch.nn.BatchNorm2d(1))
        self.model.vision_model = torch.nn.Bilinear(1, 1, 1)
        self.model.projector = torch.nn.Linear(1, 1)

    def prepare_inputs_for_generation(self, input_ids, images=None, images_seq_mask=None, images_spatial_crop=None, **kwargs):
        mask = kwargs.get("attention_mask")  # newer versions leave out a mask of ones
        assert mask is None or mask.all(), "the first token is not padding"
        made = super().prepare_inputs_for_generation(input_ids, **kwargs)
        return {**made, "images": images, "images_seq_mask": images_seq_mask, "images_spatial_crop": images_spatial_crop}

    def encode(self, views):
        seen = self.model.sam_model(views).reshape(-1, 1)
        assert seen.abs().sum() > 0, "a norm with weight zero removes the signal"
        self.model.projector(self.model.vision_model(seen, seen))

    def page(self, row, tiles, view, grid, mask):
        w, h = grid[0], grid[1]
        assert w.device.type == "cpu" and view.shape == (1, 3, 1024, 1024), (w.device, view.shape)
        rows = 16 * 17 + 1
        if torch.sum(tiles).item() != 0:
            assert tiles.shape == (w * h, 3, 640, 640), tiles.shape
            self.encode(tiles)
            rows += 10 * h * (10 * w + 1)
        self.encode(view)
        mask = mask[row].unsqueeze(-1)
        if self.config.asks_for_cuda:
            mask = mask.cuda()
        assert mask.sum() == rows, (mask.sum(), rows)

    def forward(self, input_ids=None, attention_mask=None, images=None, images_seq_mask=None, images_spatial_crop=None, **kwargs):
        if input_ids.shape[1] != 1 and torch.sum(images[0][1]).item() != 0:
            for row, (image, grid) in enumerate(zip(images, images_spatial_crop)):
                self.page(row, image[0], image[1], grid, images_seq_mask)
        return super().forward(input_ids=input_ids.clamp(max=self.config.vocab_size - 1), attention_mask=attention_mask, **kwargs)
'''


def write(folder, name, config, code=None):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    if code:
        with open(os.path.join(path, "modeling_test.py"), "w", encoding="utf-8") as f:
            f.write(code)
    return path


def short_of_memory(folder):
    return write(folder, "short_of_memory", {**LLAMA, "auto_map": {"AutoModelForCausalLM": "modeling_test.ShortOfMemory"}},
                 SHORT_OF_MEMORY)


def remote_ocr(folder, name="remote_ocr", code=REMOTE_OCR, **more):
    names = {"AutoConfig": "modeling_test.RemoteOcrConfig", "AutoModel": "modeling_test.RemoteOcr"}
    return write(folder, name, {**LLAMA, "model_type": "deepseek_vl_v2", "max_position_embeddings": 4096, "asks_for_cuda": False,
                                "architectures": ["DeepseekOCRForCausalLM"], "auto_map": names, **more}, code)


def llava(folder):
    """A tiny LLaVA model of transformers with its processor: CLIP, a projector and a llama."""
    import tokenizers
    import transformers
    words = {w: i for i, w in enumerate(["<unk>", "<s>", "</s>", "<image>", "what", "is", "this"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.add_special_tokens(["<image>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                                                     pad_token="</s>", model_input_names=["input_ids", "attention_mask"])
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.LlavaProcessor(image_processor=images, tokenizer=tokenizer, patch_size=14,
                                            vision_feature_select_strategy="default", image_token="<image>",
                                            num_additional_image_tokens=1)
    path = os.path.join(folder, "llava")
    processor.save_pretrained(path)
    return write(folder, "llava", llava_config())


def llava_config():
    vision = {"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 2, "image_size": 28, "patch_size": 14, "projection_dim": 32}
    return {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "vision_config": vision,
            "text_config": LLAMA, "image_token_index": 3, "vision_feature_layer": -2, "image_seq_length": 4, "torch_dtype": "float32"}


if __name__ == "__main__":
    print({"short-of-memory": short_of_memory}[sys.argv[1]](sys.argv[2]))
