"""A Laya of random weights, written by the authors' code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laya.common import DecisionModel
from safetensors.torch import save_file
from transformers import ModernBertConfig, ModernBertModel

from tests.models.random_weights import randomize
from tests.models.tiny import SPECIAL, VOCABULARY, write_tokenizer

OPTIONS: Mapping[str, Any] = {
    "encoder": "answerdotai/ModernBERT-large",
    "head_layers": 2,
    "max_len": 96,
    "head_max_len": 64,
    "act_costs": {"review": 0.1},
    "temperature": [1.2, 0.8, 1.7],
    "temperature_by_options": {"choice:2": 0.1, "score:3-5": 2.0, "choice:3-5": 4.0},
    "amp_dtype": "bf16",
}
SIZES: Mapping[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 128,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": 2048,
    "local_attention": 16,
    "pad_token_id": SPECIAL["[PAD]"],
    "cls_token_id": SPECIAL["[CLS]"],
    "sep_token_id": SPECIAL["[SEP]"],
    "bos_token_id": SPECIAL["[CLS]"],
    "eos_token_id": SPECIAL["[SEP]"],
}


def write_laya(folder: Path, **options: Any) -> Path:
    """Write a checkpoint; options: of its own file, in place of OPTIONS."""
    stated = {**OPTIONS, **options}
    config = ModernBertConfig(**SIZES)
    actions = len(stated["act_costs"]) + 1
    model = DecisionModel(ModernBertModel(config), stated["head_layers"], actions)
    model.train(False)
    randomize(model)
    (folder / "tokenizer").mkdir(parents=True)
    write_tokenizer(folder / "tokenizer")
    config.save_pretrained(folder / "encoder")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "rl_agent_config.json").write_text(json.dumps(stated), encoding="utf-8")
    return folder
