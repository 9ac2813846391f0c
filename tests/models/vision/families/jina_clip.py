"""Jina CLIP as it is published, in the plainest words: transformers has none.

Koukounas et al. 2024 (arXiv 2405.20204, arXiv 2412.08802). The texts of v1 are those of a JinaBERT
with other names, the texts of v2 those of a Jina v3 with one adapter.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel

from embedwell_models.config.json_config import read_object
from tests.models.families import jina
from tests.models.jina_adapters import TASKS, write_adapters
from tests.models.tiny import VOCABULARY, write_tokenizer
from tests.models.vision.families import nomic_vision
from tests.models.vision.families.nomic_vision import HEADS, LAYERS, PATCH, SIDE, WIDTH

RATIO = 2.6667
INNER = int(WIDTH * RATIO)
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
IMAGES: dict[str, Any] = {  # vision_config of jina-clip-v2, with smaller sizes
    **{"embed_dim": WIDTH, "fused_layer_norm": False, "head_width": WIDTH // HEADS},
    **{"image_size": SIDE, "intp_freq": True, "layers": LAYERS, "ls_init_value": None},
    **{"mlp_ratio": RATIO, "model_type": "jina_clip_vision", "naive_swiglu": True},
    **{"patch_dropout": 0.1, "patch_size": PATCH, "post_norm": False, "proj_type": None},
    **{"pt_hw_seq_len": 16, "qkv_bias": True, "rope_embeddings": True, "subln": True},
    **{"width": WIDTH, "x_attention": False, "drop_path_rate": 0.0},
}
TEXTS: dict[str, Any] = {
    **{"default_instruction_task": None, "embed_dim": WIDTH, "model_type": "jina_clip_text"},
    **{"pooler_type": "mean_pooler", "proj_bias": False, "proj_type": None},
}
PUBLISHED: dict[str, Any] = {
    **{"add_projections": False, "architectures": ["JinaCLIPModel"]},
    "auto_map": {
        "AutoConfig": "jinaai/jina-clip-implementation--configuration_clip.JinaCLIPConfig",
        "AutoModel": "jinaai/jina-clip-implementation--modeling_clip.JinaCLIPModel",
    },
    **{"initializer_factor": 1.0, "logit_scale_init_value": 2.6592, "model_type": "jina_clip"},
    **{"projection_dim": WIDTH, "torch_dtype": "bfloat16", "truncate_dim": None},
    "matryoshka_dimensions": [16, 32, WIDTH],
    "transformers.js_config": {"use_external_data_format": {"model.onnx": True}},
    **{"use_text_flash_attn": None, "use_vision_xformers": None},
}
PREPROCESSING: dict[str, Any] = {
    "auto_map": {
        "AutoImageProcessor": "jinaai/jina-clip-implementation--processing_clip."
        "JinaCLIPImageProcessor",
        "AutoProcessor": "jinaai/jina-clip-implementation--processing_clip.JinaCLIPProcessor",
    },
    **{"fill_color": 0, "image_processor_type": "JinaCLIPImageProcessor"},
    **{"interpolation": "bicubic", "mean": MEAN, "processor_class": "JinaCLIPProcessor"},
    **{"resize_mode": "shortest", "size": SIDE, "std": STD},
}
OF_V1: dict[str, Any] = {  # config.json of jina-bert-flash-implementation, with smaller sizes
    **{"attention_probs_dropout_prob": 0.1, "classifier_dropout": None, "emb_pooler": None},
    **{"dense_seq_output": False, "fused_bias_fc": False, "fused_dropout_add_ln": False},
    **{"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": WIDTH},
    **{"initializer_range": 0.02, "intermediate_size": 128, "last_layer_subset": False},
    **{"layer_norm_eps": 1e-12, "mlp_checkpoint_lvl": 0, "mlp_type": "glu", "model_type": "bert"},
    **{"num_attention_heads": 4, "num_hidden_layers": 2, "num_loras": 5, "pad_token_id": 0},
    **{"pad_vocab_size_multiple": 1, "torch_dtype": "float16", "type_vocab_size": 2},
    **{"use_flash_attn": True, "use_qk_norm": False, "vocab_size": len(VOCABULARY)},
    "window_size": [-1, -1],
}
_NAMES_OF_V1 = {  # of JinaBERT -> of Jina's later code
    "embeddings.LayerNorm": "emb_ln",
    "attention.output.LayerNorm": "norm1",
    "attention.output.dense": "mixer.out_proj",
    "mlp.layernorm": "norm2",
    "encoder.layer.": "encoder.layers.",
}


@dataclass(frozen=True)
class ImageReference(nomic_vision.Reference):
    """Reference that computes the vectors of pixels from the image encoder's tensors."""

    def states(self, pixels: Tensor) -> Tensor:
        """The last states of an image: (1 + patches, D)."""
        kernel, bias = (self.tensors[f"patch_embed.proj.{part}"] for part in ("weight", "bias"))
        patches = F.conv2d(pixels[None], kernel, bias, stride=PATCH)[0].flatten(1).T
        x = torch.cat([self.tensors["cls_token"][0], patches]) + self.tensors["pos_embed"][0]
        for name in (f"blocks.{index}" for index in range(LAYERS)):
            x = x + self.attention(f"{name}.attn", self.norm(f"{name}.norm1", x, self.eps))
            x = x + self.network(f"{name}.mlp", self.norm(f"{name}.norm2", x, self.eps))
        return x

    def attention(self, name: str, x: Tensor) -> Tensor:
        biases = {"q": self.tensors[f"{name}.q_bias"], "v": self.tensors[f"{name}.v_bias"]}
        query, key, value = (
            F.linear(x, self.tensors[f"{name}.{part}_proj.weight"], biases.get(part)).view(
                len(x), HEADS, -1
            )
            for part in "qkv"
        )
        mixed = self.attend(self.turned(query), self.turned(key), value)
        return self.linear(f"{name}.proj", self.norm(f"{name}.inner_attn_ln", mixed, self.eps))

    def network(self, name: str, x: Tensor) -> Tensor:
        hidden = F.silu(self.linear(f"{name}.w1", x)) * self.linear(f"{name}.w2", x)
        return self.linear(f"{name}.w3", self.norm(f"{name}.ffn_ln", hidden, self.eps))

    def vector(self, states: Tensor) -> Tensor:
        return self.norm("norm", states, self.eps)[0]


def pixels(image: Image.Image) -> Tensor:
    """The shorter side resized, the middle, and each channel normalised: (3, side, side)."""
    width, height = image.size
    size = {width: SIDE * width // min(image.size), height: SIDE * height // min(image.size)}
    resized = image.resize((size[width], size[height]), Image.Resampling.BICUBIC)
    left, top = (round((length - SIDE) / 2) for length in resized.size)
    middle = np.asarray(resized.crop((left, top, left + SIDE, top + SIDE)))
    values = torch.from_numpy(middle.copy()).permute(2, 0, 1).float().div(255)
    normalised: Tensor = (values - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[
        :, None, None
    ]
    return normalised


def write_images(trained: float, **options: Any) -> tuple[dict[str, Any], ImageReference]:
    """The vision_config of random weights, and the reference that has them."""
    tensors = _image_tensors()
    return {**IMAGES, **options}, ImageReference(tensors, 1e-6, trained)


def write_v1(folder: Path, **options: Any) -> tuple[jina.Reference, ImageReference]:
    """Save a v1 of random weights; its references of texts and images."""
    found = jina.tensors(WIDTH, 128, 2, len(VOCABULARY), code=False)
    texts = jina.Reference(found, layers=2, heads=4, act="geglu", eps=1e-12, code=False)
    vision, images = write_images(4, intp_freq=False, pt_hw_seq_len=SIDE // PATCH, **options)
    named = {**TEXTS, "hf_model_name_or_path": "jinaai/jina-bert-flash-implementation"}
    named["hf_model_config_kwargs"] = {"use_flash_attn": False}
    named |= {"_name_or_path": "", "output_attentions": False, "output_scores": False}
    named |= {"pad_token_id": None, "transformers_version": "4.36.2", "use_bfloat16": False}
    _write(folder, named, vision, _names_of_v1(found), images)
    (folder / "text_config.json").write_text(json.dumps(OF_V1))
    return texts, images


def write_v2(folder: Path, **options: Any) -> tuple[Any, ImageReference]:
    """Save a v2 of random weights; its model of texts in transformers, and that of images."""
    write_adapters(folder / "merged", folder / "adapted", 1)
    vision, images = write_images(16, **options)
    inner = read_object(folder / "adapted/config.json")
    keys = ("lora_adaptations", "lora_rank", "lora_alpha")
    named = {**TEXTS, "hf_model_name_or_path": "jinaai/jina-embeddings-v3"}
    named["default_lora_task"] = TASKS[1]
    named["hf_model_config_kwargs"] = {
        **{key: inner.pop(key) for key in keys},
        **{"load_trained_adapters": False, "lora_dropout_p": 0.0, "use_flash_attn": True},
        **{"lora_main_params_trainable": False, "task_instructions": {TASKS[0]: "Represent: "}},
    }
    _write(folder, named, vision, load_file(folder / "adapted/model.safetensors"), images)
    (folder / "text_config.json").write_text(json.dumps(inner))
    return AutoModel.from_pretrained(folder / "merged"), images


def _names_of_v1(found: dict[str, Tensor]) -> dict[str, Tensor]:
    fused: dict[str, Tensor] = {}
    for name, tensor in found.items():
        if ".attention.self." in name:
            layer, _, part = name.partition(".attention.self.")
            if part.startswith("query"):
                parts = [found[name.replace("query", each)] for each in ("query", "key", "value")]
                fused[f"{layer}.mixer.Wqkv{part[5:]}"] = torch.cat(parts)
        else:
            fused[name] = tensor
    renamed = {}
    for name, tensor in fused.items():
        key = name
        for theirs, later in _NAMES_OF_V1.items():
            key = key.replace(theirs, later)
        renamed[key] = tensor
    return renamed


def _write(
    folder: Path,
    texts: dict[str, Any],
    vision: dict[str, Any],
    tensors: dict[str, Tensor],
    images: ImageReference,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = {**PUBLISHED, "text_config": texts, "vision_config": vision}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSING))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "custom_st.Transformer"},
        {
            "idx": 2,
            "name": "2",
            "path": "2_Normalize",
            "type": "sentence_transformers.models.Normalize",
        },
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    both = {f"text_model.transformer.{name}": part for name, part in tensors.items()}
    both |= {f"vision_model.{name}": part for name, part in images.tensors.items()}
    save_file({**both, "logit_scale": torch.tensor(2.6)}, folder / "model.safetensors")
    write_tokenizer(folder)


def _image_tensors() -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, WIDTH),
        "pos_embed": (1, (SIDE // PATCH) ** 2 + 1, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (WIDTH,),
        **_affine("norm", WIDTH),
    }
    for name in (f"blocks.{index}" for index in range(LAYERS)):
        shapes |= {f"{name}.attn.{part}_proj.weight": (WIDTH, WIDTH) for part in "qkv"}
        shapes |= {f"{name}.attn.{part}_bias": (WIDTH,) for part in "qv"}
        shapes |= _affine(f"{name}.attn.proj", WIDTH, WIDTH)
        for norm, width in (("attn.inner_attn_ln", WIDTH), ("norm1", WIDTH), ("norm2", WIDTH)):
            shapes |= _affine(f"{name}.{norm}", width)
        shapes |= _affine(f"{name}.mlp.ffn_ln", INNER)
        shapes |= {
            **_affine(f"{name}.mlp.w1", INNER, WIDTH),
            **_affine(f"{name}.mlp.w2", INNER, WIDTH),
        }
        shapes |= _affine(f"{name}.mlp.w3", WIDTH, INNER)
    noise = torch.Generator().manual_seed(9)
    return {
        name: torch.randn(shape, generator=noise) * 0.3
        + (("norm" in name or "_ln" in name) and name.endswith("weight"))
        for name, shape in shapes.items()
    }


def _affine(name: str, rows: int, *columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, *columns), f"{name}.bias": (rows,)}
