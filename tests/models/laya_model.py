"""A Laya of random weights, written by the authors' code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laya.common import DecisionModel
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer
from transformers import ModernBertConfig, ModernBertModel

from tests.models import kinds
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
_ROLES = {
    **{"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"},
    **{"mask_token": "<mask>", "pad_token": "<pad>", "unk_token": "<unk>"},
}
_ONE_BASE = {"rope_type": "default", "rope_theta": 160_000.0}
"""As mmBERT's layers have it."""


def write_laya(folder: Path, *, multilingual: bool = False, **options: Any) -> Path:
    """Write a checkpoint; options: of its own file, in place of OPTIONS.

    multilingual: with a tokenizer as Gemma's, and one base of the rotations, as mmBERT has.
    """
    stated = {**OPTIONS, **options}
    (folder / "tokenizer").mkdir(parents=True)
    sizes = dict(SIZES)
    if multilingual:
        sizes["vocab_size"] = _write_gemma(folder / "tokenizer")
        bases = dict.fromkeys(("full_attention", "sliding_attention"), _ONE_BASE)
        sizes["rope_parameters"] = bases
    else:
        write_tokenizer(folder / "tokenizer")
    config = ModernBertConfig(**sizes)
    actions = len(stated["act_costs"]) + 1
    model = DecisionModel(ModernBertModel(config), stated["head_layers"], actions)
    model.train(False)
    randomize(model)
    config.save_pretrained(folder / "encoder")
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "rl_agent_config.json").write_text(json.dumps(stated), encoding="utf-8")
    return folder


def _write_gemma(folder: Path) -> int:
    # Returns the number of tokens. The files are those of a newer transformers.
    rust = Tokenizer.from_str(kinds.text("gemma"))
    rust.add_special_tokens([AddedToken(name, normalized=False) for name in ("<pad>", "<mask>")])
    rust.save(str(folder / "tokenizer.json"))
    options = {
        **_ROLES,
        "tokenizer_class": "TokenizersBackend",
        "backend": "tokenizers",
        "extra_special_tokens": ["<start_of_turn>", "<end_of_turn>"],
        "is_local": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
    return rust.get_vocab_size() + 2
