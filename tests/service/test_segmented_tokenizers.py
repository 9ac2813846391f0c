"""Models whose tokenizers split words in Python, converted from pickles and served."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from embedwell_classic.convert.model import convert_folder
from tests.models.classic.convert.older import pickled
from tests.models.families.checkpoint import SIZES, Case, write
from tests.models.segmented_files import JAPANESE, VIETNAMESE, write_japanese, write_phobert
from tests.service.local_server import local_server


def phobert(folder: Path) -> Any:
    files = write_phobert(folder / "files")
    own: dict[str, Any] = {
        "max_position_embeddings": 130,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    sizes = {**SIZES, "vocab_size": 200}
    own |= {"tokenizer_class": "PhobertTokenizer"}
    model = write(Case("roberta", own, sizes), folder)
    _add(files, folder, "vocab.txt", "bpe.codes")
    return model


def japanese(folder: Path) -> Any:
    files = write_japanese(folder / "files")
    sizes = {**SIZES, "vocab_size": 300, "max_position_embeddings": 130}
    model = write(Case("bert", sizes=sizes), folder)
    _add(files, folder, "vocab.txt", "tokenizer_config.json")
    return model


def _add(files: Path, folder: Path, *names: str) -> None:
    for name in names:
        (files / name).rename(folder / name)


@pytest.mark.parametrize(
    ("write_model", "texts"), [(phobert, VIETNAMESE), (japanese, JAPANESE)], ids=["vi", "ja"]
)
def test_a_pickled_model_is_served_with_its_vocabulary(
    write_model: Callable[[Path], Any], texts: list[str], tmp_path: Path
) -> None:
    model = write_model(tmp_path / "old")
    original: Any = AutoTokenizer.from_pretrained(tmp_path / "old")
    pickled(tmp_path / "old")
    convert_folder(tmp_path / "old", tmp_path / "new")
    with local_server(tmp_path / "new") as server:
        for text in texts:
            [result] = server.post("/tokens", {"inputs": [text]}).json()["results"]
            ids = [token["id"] for token in result["tokens"]]
            assert ids == original(text)["input_ids"]
            with torch.inference_mode():
                expected = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            states = torch.tensor([token["embedding"] for token in result["tokens"]])
            torch.testing.assert_close(states, expected, atol=1e-4 * expected.abs().max(), rtol=0)
        [tokens] = server.post("/tokenize", {"inputs": texts[0]}).json()
        assert "".join(t["text"] for t in tokens if not t["special"]) == texts[0].replace(" ", "")
