"""Qwen2-VL and Qwen2.5-VL of random weights, with a tokenizer of bytes, and as GME is published."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers import (
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from embedwell_models.config.json_config import read_json
from tests.models import kinds
from tests.models.families.checkpoint import Case, write
from tests.models.families.exact import exactly
from tests.models.image_models import encoded, picture
from tests.models.model_files.options import NORMALIZE, POOLING
from tests.models.qwen3_vl import MARKS, TEMPLATE, rendered, save, tokenized

INSTRUCTION = "You are a helpful assistant."
SIZES: dict[str, Any] = {
    **{"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 96},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 0.05},
    "rope_parameters": {
        **{"rope_type": "default", "rope_theta": 5e5},
        "mrope_section": [4, 2, 2],
    },
}
# Sizes that the kernels compute; those above are torch's.
OF_KERNELS: dict[str, Any] = {
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 128},
    "rope_parameters": {**SIZES["rope_parameters"], "mrope_section": [6, 5, 5]},
}
VISION: dict[str, Any] = {
    **{"depth": 2, "embed_dim": 64, "num_heads": 2, "mlp_ratio": 2, "hidden_size": 64},
}
VISION_2_5: dict[str, Any] = {  # windows of 2 x 2 blocks
    **{"depth": 3, "hidden_size": 64, "num_heads": 2, "intermediate_size": 56},
    **{"out_hidden_size": 64, "window_size": 56, "fullatt_block_indexes": [1]},
}
TOKENS = {"min_image_tokens": 4, "max_image_tokens": 40}  # fewer than in the published code
# The published file: the code's bounds replace these.
PROCESSOR: dict[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "size": {"max_pixels": 12_845_056, "min_pixels": 3136},
    **{"min_pixels": 3136, "max_pixels": 12_845_056},
    **{"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2},
    "processor_class": "Qwen2VLProcessor",
}
_CODE = {"type": "custom_st.MultiModalTransformer", "path": "", "idx": 0, "name": "0"}


MODELS: Mapping[str, tuple[type, Mapping[str, Any]]] = {
    "qwen2_vl": (Qwen2VLForConditionalGeneration, VISION),
    "qwen2_5_vl": (Qwen2_5_VLForConditionalGeneration, VISION_2_5),
}
Parts = Sequence[str | bytes]
AREA = 28**2
WIDE = encoded(picture(150, 60))
SMALL = encoded(picture(21, 50, 1))  # which is stretched
LARGE = encoded(picture(333, 190, 2))  # which is shrunk
CONTENTS: list[Parts] = [
    [WIDE],
    [SMALL, "the license"],
    [LARGE],
    ["any", WIDE, " of this ", SMALL, "work"],
    ["the license"],
]


def write_model(
    folder: Path,
    *,
    image_token_id: int = 90,
    model_type: str = "qwen2_vl",
    vision: Mapping[str, Any] | None = None,
    **text: Any,
) -> Any:
    """Save a model of texts and images, with the names of tensors that are published."""
    model, usual = MODELS[model_type]
    sizes: dict[str, Any] = {
        "text_config": {"vocab_size": 99, **SIZES, **text},
        "vision_config": vision or usual,
        "image_token_id": image_token_id,
    }
    return write(Case(model_type, {}, sizes, model=model), folder)


def write_qwen2_vl(folder: Path, max_length: int = 256, **text: Any) -> Any:
    """Save a model, its tokenizer, and the files of its processor."""
    rust = kinds.qwen()
    rust.add_special_tokens(MARKS)
    rust.post_processor = None
    folder.mkdir(exist_ok=True)
    rust.save(str(folder / "tokenizer.json"))
    options = {"model_max_length": max_length, "pad_token": "<|endoftext|>"}
    save(folder, "tokenizer_config.json", {**options, "eos_token": "<|im_end|>"})
    save(folder, "chat_template.json", {"chat_template": TEMPLATE})
    save(folder, "preprocessor_config.json", PROCESSOR)
    image, size = rust.token_to_id("<|image_pad|>"), rust.get_vocab_size() + 3
    assert image is not None
    return write_model(folder, image_token_id=image, vocab_size=size, **text)


def write_gme(folder: Path, modules: bool = True, **options: Any) -> Any:
    """Save a GME: a Qwen2-VL whose files name its own code.

    modules: whether modules.json names it, too.
    """
    model = write_qwen2_vl(folder, **options)
    flatten(folder)
    config = read_json(folder / "config.json")
    code = {"AutoModel": "modeling_gme_qwen2vl.GmeQwen2VL"}
    save(folder, "config.json", {**config, **TOKENS, "auto_map": code})
    if modules:
        (folder / "1_Pooling").mkdir()
        save(folder, "modules.json", [_CODE, POOLING, NORMALIZE])
        pooling = {"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}
        save(folder, "1_Pooling/config.json", {**pooling, "word_embedding_dimension": 64})
    return model


def flatten(folder: Path) -> None:
    """Write config.json as before transformers 4.52, where the published ones are from."""
    config = read_json(folder / "config.json")
    text = config.pop("text_config")
    text["rope_theta"] = text["rope_parameters"]["rope_theta"]
    sections = text.pop("rope_parameters")["mrope_section"]
    text["rope_scaling"] = {"type": "mrope", "mrope_section": sections}
    vision = {"in_chans": 3, "spatial_patch_size": 14, **config["vision_config"]}
    vision["model_type"] = config["model_type"]
    config = {**text, **config, "vision_config": vision}
    save(folder, "config.json", {key: value for key, value in config.items() if key != "head_dim"})


def fetched(image: Image.Image) -> Image.Image:
    """An image as the code of GME reads it, before its processor resizes it again."""
    height, width = smart_resize(image.height, image.width, 28, 4 * AREA, 16_384 * AREA)
    return image.resize((width, height))


def processed(folder: Path, data: bytes, bounds: tuple[int, int], twice: bool) -> Any:
    """The processor's output. bounds: least and most tokens."""
    low, high = (count * AREA for count in bounds)
    options: dict[str, Any] = {"min_pixels": low, "max_pixels": high}
    processor = Qwen2VLImageProcessorPil.from_pretrained(folder, **options)
    with Image.open(BytesIO(data)) as image:
        read = image.convert("RGB")
    return processor(fetched(read) if twice else read, return_tensors="pt")


@exactly
def theirs(  # noqa: PLR0913 - two are keyword-only
    folder: Path,
    model: Any,
    parts: Parts,
    read: Any,
    *,
    of_gme: bool,
    instruction: str = INSTRUCTION,
) -> Tensor:
    """The vector of a text with images; read: gives the processor's output of an image."""
    text, pixels, grids = "", list[Tensor](), list[Any]()
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        found = read(part)
        pixels.append(found["pixel_values"].float())
        grids.append(found["image_grid_thw"])
        pads = "<|image_pad|>" * (int(grids[-1].prod()) // 4)
        text += f"<|vision_start|>{pads}<|vision_end|>"
    row = torch.tensor([tokenized(folder, rendered(text, instruction) + "<|endoftext|>" * of_gme)])
    is_image = row == model.config.image_token_id
    vectors = model.get_input_embeddings()(row)
    options: dict[str, Any] = {"inputs_embeds": vectors}
    if pixels:
        images = {"pixel_values": torch.cat(pixels), "image_grid_thw": torch.cat(grids)}
        if of_gme:  # without positions of rows and columns
            vectors[is_image] = torch.cat(model.get_image_features(**images).pooler_output)
        else:
            options = {"input_ids": row, **images, "mm_token_type_ids": is_image.to(torch.int32)}
    encoder = model.model.language_model if of_gme else model.model
    return torch.nn.functional.normalize(encoder(**options).last_hidden_state[0, -1], dim=0)


@torch.inference_mode()
def states_of_page(
    folder: Path, model: Any, text: str, page: Image.Image | None = None, **sizes: Any
) -> Tensor:
    """The last states of a text or a page in colpali-engine: (tokens, D).

    text: has a place for the page. sizes: options that replace those of the folder's processor.
    """
    options: dict[str, Any] = {}
    if page is not None:
        processor: Any = Qwen2VLImageProcessorPil.from_pretrained(folder, **sizes)
        found = processor(page, return_tensors="pt")
        options = {key: found[key] for key in ("pixel_values", "image_grid_thw")}
        pad, tokens = "<|image_pad|>", int(found["image_grid_thw"].prod()) // 4
        text = text.replace(pad, pad * tokens)
    row = torch.tensor([tokenized(folder, text)])
    types = (row == model.config.image_token_id).to(torch.int32)
    output = model.model(input_ids=row, mm_token_type_ids=types, **options)
    states: Tensor = output.last_hidden_state[0]
    return states
