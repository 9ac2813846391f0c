"""A table of token vectors as model2vec writes it."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.models.tiny import VOCABULARY, write_tokenizer


def write_static_model(tmp_path: Path) -> Path:
    """Write the table, of random vectors, to a folder in another; return it."""
    folder = tmp_path / "static"
    folder.mkdir()
    table = np.random.default_rng(2).normal(size=(len(VOCABULARY), 12)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    write_tokenizer(folder)
    (folder / "config.json").write_text('{"model_type": "model2vec"}')
    return folder
