"""Folders of models with random weights, in the shapes of models that are often served."""

import json
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from deploy.gpu.device import CUDA, DEVICE
from deploy.gpu.latents import add_latents

HOME = Path(os.environ.get("KIT_HOME", f"{tempfile.gettempdir()}/embedwell-gpu"))
"""The folder of what the steps make and keep."""

MINILM = Path(os.environ.get("KIT_MODEL", ".gpu/model"))
"""The folder of all-MiniLM-L6-v2, with its real weights as float16."""

_BERT = {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512}


def _bert(width: int, layers: int, heads: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {**_BERT, **sizes, "intermediate_size": 4 * width}


CONFIGS: dict[str, dict[str, Any]] = {
    "bge-base": _bert(768, 12, 12),  # also e5-base, arctic-embed-m and gte-base
    "bge-large": _bert(1024, 24, 16),
    "e5-small": _bert(384, 12, 12),
    "modernbert-base": {
        "model_type": "modernbert",
        "vocab_size": 50368,
        "hidden_size": 768,
        "num_hidden_layers": 22,
        "num_attention_heads": 12,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "local_attention": 128,
        "pad_token_id": 0,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3",
        "vocab_size": 151669,
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "max_position_embeddings": 32768,
    },
    "embeddinggemma": {
        "model_type": "gemma3_text",
        "vocab_size": 262144,
        "hidden_size": 768,
        "num_hidden_layers": 24,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "intermediate_size": 1152,
        "max_position_embeddings": 2048,
        "sliding_window": 512,
        "query_pre_attn_scalar": 256,
        "use_bidirectional_attention": True,
    },
    "splade": _bert(768, 12, 12),
    "colbert": _bert(768, 12, 12),  # ColBERT v2
    "bge-m3": {
        "model_type": "xlm-roberta",
        "vocab_size": 250002,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "max_position_embeddings": 8194,
        "type_vocab_size": 1,
        "pad_token_id": 1,
    },
    "nv-embed": {  # two of its 32 layers, and its latents
        "model_type": "mistral",
        "vocab_size": 32000,
        "hidden_size": 4096,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
    },
}
NAMES = ("minilm", *CONFIGS)
_COLBERT_WIDTH = 128
_POOLING = {"bge-base": "cls", "bge-m3": "cls", "bge-large": "cls", "qwen3-0.6b": "lasttoken"}
_SPLADE = {"pooling_strategy": "max", "activation_function": "relu"}
_SMALL = {"hidden_size": 96, "num_hidden_layers": 2, "intermediate_size": 128}
_COMPLETE = ".complete"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def model_folder(name: str, *, small: bool = not CUDA) -> Path:
    """Return the folder of a model of NAMES, which is made on first use.

    small: two narrow layers, to try the kit out; all-MiniLM-L6-v2 is always whole.
    """
    if name == "minilm":
        return MINILM
    folder = HOME / "models" / (f"{name}-small" if small else name)
    if not (folder / _COMPLETE).is_file():
        _write(folder, name, CONFIGS[name] | (_SMALL if small else {}), small=small)
    return folder


def _write(folder: Path, name: str, config: dict[str, Any], *, small: bool) -> None:
    from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

    options = {key: value for key, value in config.items() if key != "model_type"}
    torch.manual_seed(0)
    kind: Any = AutoModelForMaskedLM if name == "splade" else AutoModel
    with torch.device(DEVICE):
        model = kind.from_config(AutoConfig.for_model(config["model_type"], **options))
        if name == "splade":  # so that a text of 100 tokens has about 300 weights
            model.get_output_embeddings().bias.data.fill_(-0.074 * math.sqrt(config["hidden_size"]))
        model.to(torch.bfloat16).save_pretrained(folder)
    for file in _TOKENIZER:
        shutil.copy(MINILM / file, folder)
    if name == "nv-embed":
        add_latents(folder, small=small)
    if name == "colbert":
        _add_projection(folder, config["hidden_size"])
    else:
        _write_modules(folder, name, config["hidden_size"])
    if name == "bge-m3":
        _write_linear(folder / "sparse_linear.safetensors", config["hidden_size"], 1)
        _write_linear(folder / "colbert_linear.safetensors", *[config["hidden_size"]] * 2)
    (folder / _COMPLETE).touch()


def _add_projection(folder: Path, width: int) -> None:
    """Add the layer after the encoder, so that the folder is one of Stanford's ColBERT."""
    path = folder / "model.safetensors"
    tensors = {f"bert.{name}": tensor for name, tensor in load_file(path).items()}
    projection = torch.randn(_COLBERT_WIDTH, width, dtype=torch.bfloat16) / math.sqrt(width)
    save_file({**tensors, "linear.weight": projection}, path, {"format": "pt"})
    _write_json(folder / "config.json", read_config(folder) | {"architectures": ["HF_ColBERT"]})


def _write_linear(path: Path, inputs: int, outputs: int) -> None:
    weight = torch.randn(outputs, inputs) / math.sqrt(inputs)
    save_file({"weight": weight, "bias": torch.zeros(outputs)}, path)


def _write_modules(folder: Path, name: str, width: int) -> None:
    """Write the files of sentence-transformers."""
    pooling = _POOLING.get(name, "mean")
    modes: dict[str, Any] = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_lasttoken": pooling == "lasttoken",
    }
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    if name == "splade":
        modules, modes = [("MLMTransformer", ""), ("SpladePooling", "1_Pooling")], _SPLADE
    _write_json(folder / "1_Pooling" / "config.json", modes)
    if name == "embeddinggemma":
        _write_dense(folder / "2_Dense", width, 4 * width)
        _write_dense(folder / "3_Dense", 4 * width, width)
        modules += [("Dense", "2_Dense"), ("Dense", "3_Dense")]
    if name != "splade":
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": 512})
    listed = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (kind, path) in enumerate(modules)
    ]
    _write_json(folder / "modules.json", listed)


def _write_dense(folder: Path, inputs: int, outputs: int) -> None:
    config = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    _write_json(folder / "config.json", config)
    weight = torch.randn(outputs, inputs) / math.sqrt(inputs)
    save_file({"linear.weight": weight}, folder / "model.safetensors")


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a model; of an NV-Embed, that of its layers."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    layers: dict[str, Any] = config.get("text_config", {})
    return config | layers


def flop_per_token(folder: Path, length: int) -> float:
    """Count the floating-point operations of a text of `length` for one token, with its head."""
    config = read_config(folder)
    width, heads = config["hidden_size"], config["num_attention_heads"]
    head_size = config.get("head_dim") or width // heads
    key_heads = config.get("num_key_value_heads") or heads
    gated = config["model_type"] in ("modernbert", "qwen3", "gemma3_text", "bidir_mistral")
    weights = width * head_size * (2 * heads + 2 * key_heads)
    weights += width * config["intermediate_size"] * (3 if gated else 2)
    keys = length / 2 if config["model_type"] == "qwen3" else length  # causal
    attention = 4 * keys * head_size * heads
    return float(config["num_hidden_layers"] * (2 * weights + attention)) + 2 * _head(config)


def _head(config: dict[str, Any]) -> int:
    # Weights after the layers that multiply each token.
    width = config["hidden_size"]
    if "BertForMaskedLM" in config["architectures"]:
        return int(width * (width + config["vocab_size"]))
    if "HF_ColBERT" in config["architectures"]:
        return int(width * _COLBERT_WIDTH)
    if config["model_type"] == "xlm-roberta":  # BGE-M3's
        return int(width * (width + 1))
    latents = config.get("latent_attention_config")
    if not latents:
        return 0
    scores = latents["num_latents_value"] * latents["num_cross_heads"]
    return int(width * (2 * scores + 12 * width))
