"""Models of texts and images with random weights, and images."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import (
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    MetaClip2Config,
    MetaClip2Model,
    Siglip2Config,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
)

from tests.models.families.exact import exactly
from tests.models.random_weights import randomize
from tests.models.tiny import VOCABULARY, write_tokenizer

SIDE = 64
TEXT = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    **{"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0},
}
VISION = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "image_size": SIDE,
    "patch_size": 16,
}


def write_clip(folder: Path, *, text: Any = (), **vision: Any) -> Any:
    """Save a CLIP of random weights with its tokenizer and the preprocessing of its images."""
    options = {**VISION, **vision}
    config = CLIPConfig(
        text_config={**TEXT, **dict(text)}, vision_config=options, projection_dim=24
    )
    side = options["image_size"]
    size = {"height": side, "width": side}
    CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size=size).save_pretrained(folder)
    return _write(folder, CLIPModel(config))


def write_clip_for_int8(folder: Path) -> None:
    """Save a CLIP of such small weights that int8 is accurate for its images."""
    write_clip(folder)
    file = folder / "model.safetensors"
    smaller = {
        name: each * 0.3 if "vision_model.encoder" in name and each.dim() == 2 else each
        for name, each in load_file(file).items()
    }
    save_file(smaller, file, {"format": "pt"})


def write_metaclip2(folder: Path, *, text: Any = (), **vision: Any) -> Any:
    """Save a MetaCLIP 2 of random weights with its tokenizer and image preprocessing."""
    options = {**VISION, **vision}
    config = MetaClip2Config(
        text_config={**TEXT, **dict(text)}, vision_config=options, projection_dim=24
    )
    side = options["image_size"]
    size = {"height": side, "width": side}
    CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size=size).save_pretrained(folder)
    return _write(folder, MetaClip2Model(config))


def write_siglip(folder: Path, *, text: Any = (), **vision: Any) -> Any:
    """Save a SigLIP of random weights with its tokenizer and the preprocessing of its images."""
    options = {**VISION, **vision}
    config = SiglipConfig(text_config={**TEXT, **dict(text)}, vision_config=options)
    side = options["image_size"]
    SiglipImageProcessorPil(size={"height": side, "width": side}).save_pretrained(folder)
    return _write(folder, SiglipModel(config))


def write_siglip2(folder: Path, **vision: Any) -> Any:
    """Save a SigLIP 2 for images of any proportions, of random weights; SIDE has 16 patches."""
    own = {key: value for key, value in VISION.items() if key != "image_size"}
    options = {**own, "num_patches": (SIDE // 16) ** 2, **vision}
    config = Siglip2Config(text_config=TEXT, vision_config=options)
    processor = Siglip2ImageProcessorPil(
        patch_size=options["patch_size"], max_num_patches=options["num_patches"]
    )
    processor.save_pretrained(folder)
    return _write(folder, Siglip2Model(config))


def picture(width: int, height: int, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """Draw coloured squares."""
    shape = (height // 8 + 1, width // 8 + 1, 4)
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(values).resize((width, height)).convert(mode)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Encode an image as a file."""
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@exactly
def features(model: Any, pixels: torch.Tensor) -> Any:
    """The vectors of images that transformers computes."""
    return model.get_image_features(pixel_values=pixels).pooler_output


def _write(folder: Path, model: Any) -> Any:
    randomize(model)
    model.train(False)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model
