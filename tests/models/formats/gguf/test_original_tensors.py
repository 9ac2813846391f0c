"""Tensors that llama.cpp's converter shifts, joins and reorders have the original's values.

The functions that write the files do as the converter of llama.cpp does.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import (
    Qwen3_5TextConfig,
    Qwen3_5TextModel,
    Qwen3VLTextConfig,
    Qwen3VLTextModel,
)

from embedwell_formats.gguf.blocks import BLOCK_TYPES, BlockMatrix
from embedwell_models.checkpoint.tables import to_float32
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models import gguf_files
from tests.models.families import jina
from tests.models.families.exact import assert_near, exactly
from tests.models.gguf_models import (
    DECODER,
    IDS,
    OF_BERT,
    OF_DECODER,
    SIZES,
    Tensors,
    exact_vector,
    load,
    random,
    renamed,
)

KEYS, VALUES, KEY_SIZE, SIZE = 2, 4, 16, 32
"""Heads of a Gated DeltaNet, and features of each."""
OF_DELTA_NET: dict[str, Any] = {
    **{**OF_DECODER, "block_count": 5, "nextn_predict_layers": 1, "full_attention_interval": 2},
    **{"ssm.group_count": KEYS, "ssm.time_step_rank": VALUES, "ssm.state_size": KEY_SIZE},
    **{"ssm.inner_size": VALUES * SIZE, "ssm.conv_kernel": 4, "rope.dimension_count": 8},
    "rope.dimension_sections": [2, 1, 1, 0],
}
DELTA_NET: dict[str, Any] = {
    **{**DECODER, "num_hidden_layers": 4, "full_attention_interval": 2},
    **{"linear_num_key_heads": KEYS, "linear_num_value_heads": VALUES},
    **{"linear_key_head_dim": KEY_SIZE, "linear_value_head_dim": SIZE},
    "rope_parameters": {
        **{"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25},
        **{"mrope_section": [2, 1, 1], "mrope_interleaved": True},
    },
}
JINA: dict[bool, dict[str, str]] = {
    False: {"mlp.gated_layers": "ffn_up", "mlp.wo": "ffn_down", "mlp.layernorm": "norm"},
    True: {"mlp.up_gated_layer": "ffn_up", "mlp.down_layer": "ffn_down", "layer_norm_2": "norm"},
}
OF_JINA = {
    **{"embeddings.word_embeddings": "token_embd", "embeddings.LayerNorm": "token_embd_norm"},
    **{"embeddings.token_type_embeddings": "token_types", "attention.self.query": "attn_q"},
    **{"attention.self.key": "attn_k", "attention.self.value": "attn_v"},
    **{"attention.self.layer_norm_q": "attn_q_norm", "attention.self.layer_norm_k": "attn_k_norm"},
    **{"attention.output.dense": "attn_output", "layer_norm_1": "attn_norm_2"},
    **{"attention.output.LayerNorm": "attn_output_norm", "norm": "layer_output_norm"},
}


def as_tiles(rows: Any, size: int) -> Any:
    """The rows of heads of values with the first of each key before the second of each."""
    return rows.reshape(KEYS, -1, size, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def of_delta_net(model: Any) -> Tensors:
    """The tensors of a Qwen3.5 as llama.cpp's converter writes them."""
    tensors = renamed("qwen35", model)
    for name, tensor in tensors.items():
        if name.endswith("norm.weight") and "ssm" not in name:
            tensors[name] = tensor + 1
        elif name.endswith("attn_gate.weight"):
            tensors[name] = as_tiles(tensor, SIZE)
        elif name.endswith(("ssm_alpha.weight", "ssm_beta.weight")):
            tensors[name] = as_tiles(tensor, 1)
        elif name.endswith(("attn_qkv.weight", "ssm_conv1d.weight")):
            rows, before = tensor.reshape(len(tensor), -1), 2 * KEYS * KEY_SIZE
            tensors[name] = np.concatenate([rows[:before], as_tiles(rows[before:], SIZE)])
        elif name.endswith("ssm_out.weight"):
            tensors[name] = as_tiles(tensor.T, SIZE).T.copy()
    for name, values in model.state_dict().items():
        layer = name.split(".")[1]
        if name.endswith("A_log"):
            tensors[f"blk.{layer}.ssm_a"] = as_tiles(-np.exp(values.numpy()), 1)
        elif name.endswith("dt_bias"):
            tensors[f"blk.{layer}.ssm_dt.bias"] = as_tiles(values.numpy(), 1)
    further = {name: tensors[name] for name in tensors if name.startswith("blk.3.")}
    return tensors | {name.replace("blk.3.", "blk.4."): further[name] * 2 for name in further}


@pytest.mark.parametrize("half", [False, True])
def test_qwen35_has_the_states_of_transformers(tmp_path: Path, half: bool) -> None:
    model = random(Qwen3_5TextModel(Qwen3_5TextConfig(**DELTA_NET)))
    for weights in model.parameters() if half else ():
        weights.data = weights.data.bfloat16().float()
    tensors = of_delta_net(model)
    for name in tensors if half else ():
        if tensors[name].ndim == 2 and "conv" not in name:
            tensors[name] = gguf_files.bfloat16(tensors[name])
    embedder = load(tmp_path, "qwen35", OF_DELTA_NET, tensors)
    assert_near(embedder.encode([IDS])[0], exact_vector(model))


@pytest.mark.parametrize("name", ["attn_gate", "ssm_out"])
def test_blocks_of_a_delta_net_are_reordered(tmp_path: Path, name: str) -> None:
    model = random(Qwen3_5TextModel(Qwen3_5TextConfig(**DELTA_NET)))
    tensors, linear = of_delta_net(model), model.layers[0].linear_attn
    blocks = gguf_files.quantize(tensors[f"blk.0.{name}.weight"])
    tensors[f"blk.0.{name}.weight"] = blocks
    rows = BlockMatrix(blocks, BLOCK_TYPES["Q8_0"]).to_float32()
    layer = linear.in_proj_z if name == "attn_gate" else linear.out_proj
    grouped = rows if name == "attn_gate" else rows.T
    # Two keys with two values each: the order is its own inverse.
    grouped = as_tiles(grouped, SIZE)
    layer.weight.data = torch.from_numpy((grouped if name == "attn_gate" else grouped.T).copy())
    embedder = load(tmp_path, "qwen35", OF_DELTA_NET, tensors)
    assert_near(embedder.encode([IDS])[0], exact_vector(model))


def test_qwen3vl_has_the_states_of_transformers(tmp_path: Path) -> None:
    sections = {"mrope_section": [8, 4, 4], "mrope_interleaved": True, "rope_theta": 5000.0}
    rotation = {"rope_type": "default", **sections}
    model = random(Qwen3VLTextModel(Qwen3VLTextConfig(**DECODER, rope_parameters=rotation)))
    keys = {**OF_DECODER, "rope.freq_base": 5000.0, "n_deepstack_layers": 3}
    embedder = load(tmp_path, "qwen3vl", keys, renamed("qwen3vl", model))
    assert_near(embedder.encode([IDS])[0], exact_vector(model))


def of_jina(tensors: Tensors, code: bool, split: bool) -> Tensors:
    """The tensors of a JinaBERT in a file. split: as by converters before May 2025."""
    written: Tensors = {}
    for name, numbers in tensors.items():
        stem, _, ending = name.rpartition(".")
        _, _, layer, rest = stem.split(".", 3) if stem.startswith("encoder") else ("", "", "", stem)
        rest = JINA[code].get(rest, rest)
        prefix, ours = f"blk.{layer}." if layer else "", OF_JINA.get(rest, rest)
        if ours == "ffn_up" and split:
            parts = [*np.split(numbers, 2)]
            up, gate = parts if code else reversed(parts)
            written |= {f"{prefix}ffn_up.{ending}": up, f"{prefix}ffn_gate.{ending}": gate}
        elif ours != "pooler.dense":
            written[f"{prefix}{ours}.{ending}"] = numbers
    return written


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("code", [False, True])
@pytest.mark.parametrize("change", [lambda part: part, gguf_files.bfloat16, gguf_files.quantize])
def test_jina_bert_has_the_states_of_its_publication(
    tmp_path: Path, code: bool, split: bool, change: Callable[[Any], Any]
) -> None:
    width, inner, layers = 64, 96, 3
    tensors = jina.tensors(width, inner, layers, SIZES["vocab_size"], code)
    written = of_jina({name: part.numpy() for name, part in tensors.items()}, code, split)
    for name in written:
        if "ffn_up" in name or "ffn_gate" in name:
            written[name] = change(written[name])
    up = "mlp.up_gated_layer" if code else "mlp.gated_layers"
    for layer in range(layers):
        name = f"encoder.layer.{layer}.{up}.weight"
        changed = change(tensors[name].numpy())
        if changed.dtype == np.uint8:
            changed = BlockMatrix(changed, BLOCK_TYPES["Q8_0"]).to_float32()
        elif changed.dtype == np.uint16:
            changed = to_float32(changed)
        tensors[name] = torch.from_numpy(changed)
    keys = {**OF_BERT, "block_count": layers, "feed_forward_length": inner}
    embedder: Embedder = load(tmp_path, "jina-bert-v2", keys, written)
    reference = jina.Reference(tensors, layers, heads=4, act="geglu", eps=0.05, code=code)

    @exactly
    def vector() -> torch.Tensor:
        return F.normalize(reference(torch.tensor(IDS))[-1].mean(dim=0), dim=0)

    assert_near(embedder.encode([IDS])[0], vector())


def test_sizes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    tensors = of_delta_net(random(Qwen3_5TextModel(Qwen3_5TextConfig(**DELTA_NET))))
    for key in ("attention.head_count", "attention.key_length", "ssm.time_step_rank"):
        with pytest.raises(ModelError, match=rf"qwen35\.{key} = 0, but it must be 1 or more"):
            load(tmp_path, "qwen35", {**OF_DELTA_NET, key: 0}, tensors)
    for key, value in {"ssm.state_size": 3, "ssm.time_step_rank": 8, "block_count": 3}.items():
        with pytest.raises(ModelError, match=r"shape|implies no tensors"):
            load(tmp_path, "qwen35", {**OF_DELTA_NET, key: value}, tensors)
    damaged = {**tensors, "blk.0.ssm_a": -tensors["blk.0.ssm_a"]}
    with pytest.raises(ModelError, match=r"linear_attn\.A_log has NaN"):
        load(tmp_path, "qwen35", OF_DELTA_NET, damaged)
