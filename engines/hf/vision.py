"""Inputs of vision models without processor files: image processors with the defaults of the model's family, and image tokens
counted from the config. Enough to measure speed; the answers of a real checkpoint need its own processor files.
"""
import importlib


class Unknown(Exception):
    """The family's preprocessing is not known here."""


def image_processor(config):
    """The family's image processor with the sizes of the config."""
    names = importlib.import_module("transformers.models.auto.image_processing_auto").IMAGE_PROCESSOR_MAPPING_NAMES
    import transformers
    vision = config.vision_config
    entry = names.get(config.model_type) or names.get(getattr(vision, "model_type", ""))
    found = [n for n in (entry.values() if isinstance(entry, dict) else entry if isinstance(entry, (tuple, list)) else [entry]) if n]
    for name in found:
        try:
            cls = getattr(transformers, name)
            return cls(**sizes(config))
        except (ImportError, AttributeError, ValueError):  # the fast variants need torchvision
            continue
    raise Unknown(f"transformers {transformers.__version__} has no image processor for model type '{config.model_type}'")


def sizes(config):
    vision = config.vision_config
    if hasattr(vision, "spatial_merge_size"):
        return {"patch_size": vision.patch_size, "merge_size": vision.spatial_merge_size,
                "temporal_patch_size": getattr(vision, "temporal_patch_size", 2)}
    side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
    square = {"height": side, "width": side}
    return {"size": square, "crop_size": square}


def tokens_per_image(config, made):
    """The number of image tokens of each image in the prompt."""
    vision = config.vision_config
    if "image_grid_thw" in made:
        merge = vision.spatial_merge_size ** 2
        return [int(t * h * w) // merge for t, h, w in made["image_grid_thw"].tolist()]
    count = getattr(config, "mm_tokens_per_image", None) or getattr(config, "image_seq_length", None)
    if not count:
        side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
        count = (side // vision.patch_size) ** 2
    return [count] * len(made["pixel_values"])


def inputs_of(config, text_ids, images):
    """(token ids, {name: tensor}) of a prompt with all images before its text."""
    token = next((getattr(config, n) for n in ("image_token_id", "image_token_index") if getattr(config, n, None) is not None), None)
    if token is None or getattr(config, "vision_config", None) is None:
        raise Unknown(f"the config of model type '{config.model_type}' names no image token")
    made = dict(image_processor(config)(images=images, return_tensors="pt"))
    start, end = (getattr(config, f"vision_{n}_token_id", None) for n in ("start", "end"))
    ids = []
    for count in tokens_per_image(config, made):
        ids += [i for i in (start,) if i is not None] + [token] * count + [i for i in (end,) if i is not None]
    return ids + text_ids, made
