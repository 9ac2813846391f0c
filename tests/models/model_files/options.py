"""Entries of modules.json, pooling modes of sentence-transformers, and a model with a prompt."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import Folder as Write

REFERENCE_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}

TRANSFORMER = {"name": "0", "type": "sentence_transformers.models.Transformer", "path": ""}

POOLING = {"name": "1", "type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}

NORMALIZE = {"name": "2", "type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}


def configure(folder: Path, **changed: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed), encoding="utf-8")
    return folder


PROMPT = "for the license: "


def write_prompted(
    tiny_bert: Write, modes: object, sizes: Mapping[str, int], card: object = None
) -> Path:
    pooling = {"pooling_mode": modes, "include_prompt": False}
    files = {
        "modules.json": [TRANSFORMER, POOLING],
        "1_Pooling/config.json": {**pooling, "embedding_dimension": sizes["hidden_size"]},
        "config_sentence_transformers.json": card or {},
    }
    return tiny_bert(files, **sizes)
