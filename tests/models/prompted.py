"""A small model with a prompt."""

from collections.abc import Mapping
from pathlib import Path

from tests.conftest import Folder as Write
from tests.models.model_files.options import POOLING, TRANSFORMER

PROMPT = "for the license: "


def write(tiny_bert: Write, modes: object, sizes: Mapping[str, int], card: object = None) -> Path:
    pooling = {"pooling_mode": modes, "include_prompt": False}
    files = {
        "modules.json": [TRANSFORMER, POOLING],
        "1_Pooling/config.json": {**pooling, "embedding_dimension": sizes["hidden_size"]},
        "config_sentence_transformers.json": card or {},
    }
    return tiny_bert(files, **sizes)
