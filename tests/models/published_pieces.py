"""An XLM-RoBERTa whose tokenizer.json is as published: it loses marks of decomposed texts."""

import json
import unicodedata
from pathlib import Path
from typing import Any

from embedwell_classic.convert import tokenizer
from tests.models import raw
from tests.models.families.checkpoint import SIZES, Case, write

DECOMPOSED = [unicodedata.normalize("NFD", text) for text in raw.COMPOSED[:3]]
"""Korean, Vietnamese and kana."""


def write_published(folder: Path) -> Path:
    """Write the model, and return its folder."""
    (source := folder / "source").mkdir(parents=True)
    special: dict[str, Any] = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    sizes = {**SIZES, "vocab_size": 310, "max_position_embeddings": 130}
    write(Case("xlm-roberta", special, sizes), folder / "model")
    tokenizer.convert(raw.write("xlm_roberta", source), folder / "model")
    path = folder / "model/tokenizer.json"
    file = json.loads(path.read_text(encoding="utf-8"))
    steps = file["normalizer"]["normalizers"]
    # transformers writes none of the steps that `convert` adds.
    file["normalizer"]["normalizers"] = [step for step in steps if step["type"] != "NFC"]
    path.write_text(json.dumps(file), encoding="utf-8")
    return folder / "model"
