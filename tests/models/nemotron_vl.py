"""Llama Nemotron VL of random weights, as it is published, and the steps of its authors' code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel, SiglipVisionConfig, SiglipVisionModel

from tests.models import kinds
from tests.models.families.exact import exactly
from tests.models.qwen3_vl import save
from tests.models.random_weights import randomize

SIDE, TOKENS, MOST = 64, 4, 6
MARKS = ["<img>", "</img>", "<IMG_CONTEXT>"]
_VISION: dict[str, Any] = {
    **{"image_size": SIDE, "patch_size": 16, "hidden_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "intermediate_size": 128},
}
_TEXT: dict[str, Any] = {
    **{"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2},
    **{"num_key_value_heads": 1, "intermediate_size": 96, "rms_norm_eps": 0.05},
    **{"max_position_embeddings": 512, "bos_token_id": 0},
}
PROCESSOR: dict[str, Any] = {
    "auto_map": {"AutoProcessor": "processing_llama_nemotron_vl.LlamaNemotronVLProcessor"},
    "processor_class": "LlamaNemotronVLProcessor",
    **{"image_size": SIDE, "num_image_token": TOKENS, "max_input_tiles": MOST},
    **{"dynamic_image_size": True, "use_thumbnail": True, "norm_type": "siglip"},
    **{"num_channels": 3, "query_prefix": "query:", "passage_prefix": "passage:"},
    **{"q_max_length": 512, "p_max_length": 4096, "pad_to_multiple_of": None, "padding": True},
    **{"system_message": "", "template": "bidirectional-llama-retriever"},
}


class NemotronVL(nn.Module):
    """The published parts under their names, which read one text or image at a time."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.vision_model: Any = SiglipVisionModel(SiglipVisionConfig(**_VISION))
        self.language_model: Any = LlamaModel(LlamaConfig(vocab_size=vocab_size, **_TEXT))
        self.mlp1 = nn.Sequential(
            nn.LayerNorm(256), nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 64)
        )
        self.tokenizer: Any = None
        self.processor = PROCESSOR

    @torch.inference_mode()
    def states(self, text: str, images: Sequence[Image.Image] = ()) -> Tensor:
        """The last states of a text, with a place <image> for each image: (T, D)."""
        tiles = [self.pixels(image) for image in images]
        for pixels in tiles:
            tokens = "<IMG_CONTEXT>" * (TOKENS * len(pixels))
            text = text.replace("<image>", f"<img>{tokens}</img>", 1)
        ids = torch.tensor([self.tokenizer.encode(text).ids])
        vectors = self.language_model.embed_tokens(ids)
        if tiles:
            is_image = ids == self.tokenizer.token_to_id("<IMG_CONTEXT>")
            vectors[is_image] = self._tokens(torch.cat(tiles)).reshape(-1, 64)
        length = ids.shape[1]
        everything = torch.zeros(1, 1, length, length)  # added to the scores
        output = self.language_model(inputs_embeds=vectors, attention_mask=everything)
        states: Tensor = output.last_hidden_state[0]
        return states

    @exactly
    def vector(self, text: str, images: Sequence[Image.Image] = ()) -> Any:
        """The mean of the states, of unit length: (D,)."""
        return nn.functional.normalize(self.states(text, images).mean(dim=0), dim=0)

    @exactly
    def score(self, text: str, weights: Tensor) -> Any:
        """The score of a text, by its weights (1, D): (1,)."""
        return weights @ self.states(text).mean(dim=0)

    def pixels(self, image: Image.Image) -> Tensor:
        """The values of an image's tiles: (tiles, 3, side, side)."""
        columns, rows = (1, 1) if not self.processor["dynamic_image_size"] else self._grid(image)
        resized = image.resize((columns * SIDE, rows * SIDE))
        tiles = [
            resized.crop((left, top, left + SIDE, top + SIDE))
            for top in range(0, resized.height, SIDE)
            for left in range(0, resized.width, SIDE)
        ]
        if self.processor["use_thumbnail"] and len(tiles) > 1:
            tiles.append(image.resize((SIDE, SIDE)))
        values = np.stack([np.array(tile) for tile in tiles]).transpose(0, 3, 1, 2)
        scaled = (values.astype(np.float32) / 255 - 0.5) / 0.5
        return torch.from_numpy(scaled).bfloat16().float()

    def _grid(self, image: Image.Image) -> tuple[int, int]:
        most = self.processor["max_input_tiles"]
        every = range(1, most + 1)
        grids = {(i, j) for n in every for i in every[:n] for j in every[:n] if i * j <= most}
        ordered = sorted(grids, key=lambda grid: grid[0] * grid[1])
        aspect, area = image.width / image.height, image.width * image.height
        scores = [
            min(i * j * SIDE * SIDE / area, 0.6) * min((i / j) / aspect, aspect / (i / j))
            for i, j in ordered
        ]
        return ordered[scores.index(max(scores))]

    def _tokens(self, pixels: Tensor) -> Tensor:
        """The tokens of tiles: (tiles, TOKENS, D)."""
        states = self.vision_model(pixel_values=pixels).last_hidden_state
        tiles, patches, width = states.shape
        side = int(patches**0.5)
        x = states.reshape(tiles, side, side // 2, width * 2).permute(0, 2, 1, 3)
        x = x.reshape(tiles, side // 2, side // 2, width * 4).permute(0, 2, 1, 3)
        tokens: Tensor = self.mlp1(x.reshape(tiles, TOKENS, width * 4))
        return tokens


def write_nemotron_vl(folder: Path, max_length: int = 400, **processor: Any) -> NemotronVL:
    """Save a model that embeds, its tokenizer and its processor's file; return the reference.

    max_length: tokens of a text. processor: options that differ.
    """
    rust = kinds.llama3()
    rust.add_special_tokens(MARKS)
    reference = _reference(folder, rust, PROCESSOR | processor)
    save_file(reference.state_dict(), folder / "model.safetensors")
    save(folder, "processor_config.json", reference.processor)
    save(folder, "config.json", _config(rust, max_length))
    return reference


def write_nemotron_rerank_vl(folder: Path, temperature: float = 1.0) -> tuple[NemotronVL, Any]:
    """Save a model that reranks; return the reference, and the weights of its score (1, D)."""
    rust = kinds.llama3()
    rust.add_special_tokens(MARKS)
    reference = _reference(folder, rust, PROCESSOR)
    score = torch.randn((1, 64), generator=torch.Generator().manual_seed(3))
    tensors = {f"model.{name}": each for name, each in reference.state_dict().items()}
    save_file({**tensors, "score.weight": score}, folder / "model.safetensors")
    config, name = _config(rust, 400), "LlamaNemotronVLForSequenceClassification"
    code = f"modeling_llama_nemotron_vl.{name}"
    own: dict[str, Any] = {"model_type": "llama_nemotron_vl_rerank", "architectures": [name]}
    own |= {"auto_map": {"AutoModel": code, "AutoModelForSequenceClassification": code}}
    own |= {"prompt_template": "v1", "temperature": temperature, "id2label": {"0": "LABEL_0"}}
    save(folder, "config.json", {**config, **own})
    return reference, score


def _reference(folder: Path, rust: Tokenizer, processor: dict[str, Any]) -> NemotronVL:
    reference = NemotronVL(rust.get_vocab_size())
    reference.train(False)
    randomize(reference)
    reference.tokenizer, reference.processor = rust, processor
    folder.mkdir(exist_ok=True)
    rust.save(str(folder / "tokenizer.json"))
    save(folder, "tokenizer_config.json", {"model_max_length": 10_240, "padding_side": "left"})
    return reference


def _config(rust: Tokenizer, max_length: int) -> dict[str, Any]:
    """The published configuration, with the sizes of the reference."""
    text = json.loads(LlamaConfig(vocab_size=rust.get_vocab_size(), **_TEXT).to_json_string())
    vision = json.loads(SiglipVisionConfig(**_VISION).to_json_string())
    code = "modeling_llama_nemotron_vl.LlamaNemotronVLModel"
    return {
        "model_type": "llama_nemotron_vl",
        "architectures": ["LlamaNemotronVLModel"],
        "auto_map": {"AutoModel": code},
        "llm_config": {
            **{**text, "model_type": "llama_bidirec", "pooling": "avg", "temperature": 0.02},
            "architectures": ["LlamaBidirectionalModel"],
        },
        "vision_config": vision,
        "img_context_token_id": rust.token_to_id("<IMG_CONTEXT>"),
        **{"downsample_ratio": 0.5, "ps_version": "v2", "select_layer": -1, "pooling": "avg"},
        **{"force_image_size": SIDE, "dynamic_image_size": True, "use_thumbnail": True},
        **{"min_dynamic_patch": 1, "max_dynamic_patch": 6, "max_input_tiles": 2},
        **{"template": "bidirectional-llama-retriever", "bidirectional_attention": True},
        **{"q_max_length": 512, "p_max_length": max_length, "vocab_size": rust.get_vocab_size()},
        **{"query_prefix": "query:", "passage_prefix": "passage:", "mlp_checkpoint": True},
        **{"keep_aspect_ratio": False, "pre_feature_reduction": False},
        **{"use_backbone_lora": 0, "use_llm_lora": 0, "torch_dtype": "bfloat16"},
    }
