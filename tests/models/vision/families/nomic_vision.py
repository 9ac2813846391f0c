"""Nomic Embed Vision as it is published, in the plainest words: transformers has none.

Nussbaum et al. 2024 (arXiv 2406.18587), on EVA-02 (Fang et al. 2023, arXiv 2303.11331).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor
from transformers import CLIPImageProcessorPil

from tests.models.random_weights import random_tensors

SIDE, PATCH, WIDTH, HEADS, LAYERS, INNER = 64, 16, 64, 2, 2, 256
SQUARE = {"height": SIDE, "width": SIDE}  # both sides are resized
PUBLISHED: dict[str, Any] = {  # config.json of nomic-embed-vision-v1.5, with smaller sizes
    **{"activation_function": "swiglu", "architectures": ["NomicVisionModel"], "attn_pdrop": 0.0},
    "auto_map": {
        "AutoConfig": "configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": "modeling_hf_nomic_bert.NomicVisionModel",
    },
    **{"bos_token_id": None, "causal": False, "dense_seq_output": True, "drop_path_rate": 0.0},
    **{"embd_pdrop": 0.0, "eos_token_id": None, "eva_qkv_bias": False, "fused_bias_fc": True},
    **{"fused_dropout_add_ln": True, "global_pool": None, "hidden_features_scaling_factor": 1.0},
    **{"img_size": SIDE, "initializer_range": 0.02, "layer_norm_epsilon": 1e-06},
    **{"layer_scale": False, "layer_scale_init": 1.0, "learned_pos_embedding": False},
    **{"mask_token": False, "max_trained_positions": 2048, "mlp_fc1_bias": True},
    **{"mlp_fc2_bias": True, "model_type": "nomic_bert", "n_embd": WIDTH, "n_head": HEADS},
    **{"n_inner": INNER - 56.0, "n_layer": LAYERS, "n_positions": 0, "no_cls_token": False},
    **{"no_embed_class": False, "no_last_ln": True, "norm_mlp": True, "num_channels": 3},
    **{"pad_vocab_size_multiple": 1, "parallel_block": False, "parallel_block_tied_norm": False},
    **{"patch_dropout": 0, "patch_embed_bias": True, "patch_size": PATCH, "prenorm": True},
    **{"prepre_layernom": False, "qkv_proj_bias": True, "ref_feat_shape": [SIDE // PATCH] * 2},
    **{"register_tokens": 0, "reorder_and_upcast_attn": False, "resid_pdrop": 0.0},
    **{"rotary_emb_base": 10000, "rotary_emb_fraction": 0, "rotary_emb_interleaved": False},
    **{"rotary_emb_scale_base": None, "rotary_scaling_factor": None},
    **{"scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True},
    **{"sinusoidal_pos_embedding": False, "summary_activation": None},
    **{"summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index"},
    **{"summary_use_proj": True, "torch_dtype": "float32", "transformers_version": "4.40.2"},
    **{"type_vocab_size": 2, "use_cache": True, "use_flash_attn": True, "use_pos_embed": True},
    **{"use_rms_norm": False, "use_rotary_pos_emb": True, "use_xentropy": False, "vocab_size": 0},
}


@dataclass(frozen=True)
class Reference:
    """Reference that computes the vectors of pixels from a checkpoint's tensors."""

    tensors: dict[str, Tensor]
    eps: float
    trained_side: float

    def __call__(self, pixels: Tensor) -> Tensor:
        """The vectors of normalised pixels (B, 3, side, side): (B, D)."""
        return torch.stack([self.vector(self.states(each)) for each in pixels])

    def states(self, pixels: Tensor) -> Tensor:
        """The last states of an image: (1 + patches, D)."""
        kernel = self.tensors["embeddings.proj.weight"].view(WIDTH, 3, PATCH, PATCH)
        bias = self.tensors["embeddings.proj.bias"]
        patches = F.conv2d(pixels[None], kernel, bias, stride=PATCH)[0].flatten(1).T
        x = torch.cat([self.tensors["embeddings.cls_token"][0], patches])
        x = x + self.tensors["embeddings.pos_embed"][0]
        for index in range(LAYERS):
            name = f"layers.{index}"
            x = x + self.attention(name, self.norm(f"{name}.norm1", x, self.eps))
            x = x + self.network(f"{name}.mlp", self.norm(f"{name}.norm2", x, self.eps))
        return x

    def attention(self, name: str, x: Tensor) -> Tensor:
        query, key, value = self.linear(f"{name}.attn.Wqkv", x).chunk(3, dim=1)
        query, key, value = (part.view(len(x), HEADS, -1) for part in (query, key, value))
        mixed = self.attend(self.turned(query), self.turned(key), value)
        return self.linear(f"{name}.attn.out_proj", mixed)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        return F.scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)

    def turned(self, x: Tensor) -> Tensor:
        """Rotate the first half of a head by its patch's row, the other half by the column."""
        grid, quarter = SIDE // PATCH, x.shape[2] // 4
        speeds = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
        angles = torch.arange(grid)[:, None] / grid * self.trained_side * speeds
        rows, columns = angles[:, None].expand(-1, grid, -1), angles.expand(grid, -1, -1)
        of_patches = torch.cat([rows, columns], dim=2).flatten(0, 1)
        turns = torch.polar(torch.ones_like(of_patches), of_patches).to(torch.complex64)
        pairs = torch.view_as_complex(x[1:].reshape(grid**2, HEADS, -1, 2))
        patches = torch.view_as_real(pairs * turns[:, None]).flatten(2)
        return torch.cat([x[:1], patches])

    def network(self, name: str, x: Tensor) -> Tensor:
        hidden = self.linear(f"{name}.fc11", x) * F.silu(self.linear(f"{name}.fc12", x))
        if f"{name}.norm.weight" in self.tensors:
            hidden = self.norm(f"{name}.norm", hidden, 1e-5)
        return self.linear(f"{name}.fc2", hidden)

    def vector(self, states: Tensor) -> Tensor:
        query = self.linear("selector.attn.Wq", self.tensors["selector.attn.latent"][0])
        key, value = self.linear("selector.attn.Wkv", states).chunk(2, dim=1)
        query, key, value = (part.view(len(part), HEADS, -1) for part in (query, key, value))
        pooled = self.linear("selector.attn.out_proj", self.attend(query, key, value))
        normed = self.norm("selector.norm1", pooled, self.eps)
        return states[0] + self.network("selector.mlp", normed)[0]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def norm(self, name: str, x: Tensor, eps: float) -> Tensor:
        weight, bias = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x, weight.shape, weight, bias, eps)


def write_nomic_vision(folder: Path, **options: Any) -> Reference:
    """Save an image encoder of random weights with its preprocessing."""
    config = {**PUBLISHED, **options}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    CLIPImageProcessorPil(size=SQUARE, crop_size=SQUARE).save_pretrained(folder)
    tensors = _tensors()
    save_file(tensors, folder / "model.safetensors")
    return Reference(tensors, config["layer_norm_epsilon"], config["ref_feat_shape"][0])


def _tensors() -> dict[str, Tensor]:
    tokens = (SIDE // PATCH) ** 2 + 1
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.cls_token": (1, 1, WIDTH),
        "embeddings.pos_embed": (1, tokens, WIDTH),
        "selector.attn.latent": (1, 1, WIDTH),
        **_affine("embeddings.proj", WIDTH, 3 * PATCH**2),
        **_affine("selector.norm1", WIDTH),
    }
    for name, rows in (("Wq", WIDTH), ("Wkv", 2 * WIDTH), ("out_proj", WIDTH)):
        shapes |= _affine(f"selector.attn.{name}", rows, WIDTH)
    networks = ["selector.mlp"]
    for index in range(LAYERS):
        name = f"layers.{index}"
        shapes |= _affine(f"{name}.attn.Wqkv", 3 * WIDTH, WIDTH)
        shapes |= _affine(f"{name}.attn.out_proj", WIDTH, WIDTH)
        for norm, width in (("norm1", WIDTH), ("norm2", WIDTH), ("mlp.norm", INNER)):
            shapes |= _affine(f"{name}.{norm}", width)
        networks.append(f"{name}.mlp")
    for name in networks:
        shapes |= _affine(f"{name}.fc11", INNER, WIDTH)
        shapes |= _affine(f"{name}.fc12", INNER, WIDTH)
        shapes |= _affine(f"{name}.fc2", WIDTH, INNER)
    return random_tensors(shapes)


def _affine(name: str, rows: int, *columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, *columns), f"{name}.bias": (rows,)}
