"""Models with random weights as llama.cpp's converter writes them, and their keys."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from embedwell_formats.gguf.architectures import ARCHITECTURES
from embedwell_models.embedder import Embedder
from embedwell_models.hub import sources
from tests.models import gguf_files
from tests.models.families.exact import Expected, expected
from tests.models.random_weights import randomize

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"▁w{number}" for number in range(60))]
TOKENIZER = {
    "model": "bert",
    "tokens": VOCABULARY,
    "token_type": [3] * 4 + [1] * 60,
    **{"padding_token_id": 0, "unknown_token_id": 1, "bos_token_id": 2, "seperator_token_id": 3},
}
IDS = [int(id) for id in np.random.default_rng(1).integers(4, 64, 30)]
SIZES: dict[str, Any] = {
    **{"vocab_size": 64, "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 7},
    **{"num_attention_heads": 4, "max_position_embeddings": 128},
}
DECODER: dict[str, Any] = {**SIZES, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 0.01}
KEYS = {
    **{"block_count": 7, "context_length": 128, "embedding_length": 64},
    **{"feed_forward_length": 256, "attention.head_count": 4},
}
OF_DECODER = {
    **KEYS,
    **{"attention.head_count_kv": 2, "attention.key_length": 32, "pooling_type": 3},
    **{"attention.layer_norm_rms_epsilon": 0.01, "attention.sliding_window": 8},
}
OF_BERT = {**KEYS, "attention.layer_norm_epsilon": 0.05, "pooling_type": 1}
Tensors = dict[str, Any]


def load(
    folder: Path,
    kind: str,
    keys: Mapping[str, Any],
    tensors: Tensors,
    tokens: Mapping[str, Any] = TOKENIZER,
) -> Embedder:
    metadata = {"general.architecture": kind}
    metadata |= {key if "general." in key else f"{kind}.{key}": keys[key] for key in keys}
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in tokens.items()}
    file = gguf_files.write(folder / "a.gguf", metadata, tensors)
    return Embedder.load(sources.resolve(str(file), cache=folder), device="cpu", dtype="float32")


def renamed(kind: str, model: Any) -> Tensors:
    """The tensors of a model as llama.cpp's converter writes them."""
    names = {theirs: ours for ours, theirs in ARCHITECTURES[kind].names.items()}
    tensors = {}
    for name, tensor in model.state_dict().items():
        stem, _, ending = name.rpartition(".")
        layer = re.search(r"(?<=[.])\d+(?=[.])", stem)
        ours = names.get(stem[: layer.start()] + "{}" + stem[layer.end() :] if layer else stem)
        if ours:
            ours = ours.replace("blk.", f"blk.{layer[0]}.") if layer else ours
            tensors[f"{ours}.{ending}"] = tensor.numpy()
    return tensors


def random(model: Any) -> Any:
    torch.manual_seed(3)
    randomize(model)
    return model.train(False)


def exact_vector(model: Any, mode: str = "lasttoken", ids: Sequence[int] = IDS) -> Expected:
    """Compute the pooled states of a text by transformers, of length 1."""

    def vector(either: Any) -> torch.Tensor:
        states = either(torch.tensor([ids])).last_hidden_state[0]
        return F.normalize(states.mean(0) if mode == "mean" else states[-1], dim=0)

    return expected(model, vector)
