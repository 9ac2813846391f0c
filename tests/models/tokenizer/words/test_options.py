"""Files of a tokenizer of words that are damaged."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.words.options import LISTED, MAPPED, WordOptions, read_vocabulary
from embedwell_models.tokenizer.words.vocabulary import Vocabulary


@pytest.mark.parametrize(
    "options", ["[", '{"other": 1}', '{"stop_words": [], "subwords": {"n": 1}}']
)
def test_options_that_cannot_be_read_are_refused(tmp_path: Path, options: str) -> None:
    save_file({"text": np.zeros(1)}, tmp_path / MAPPED, metadata={"options": options})
    with pytest.raises(ModelError, match=r"vocabulary\.safetensors has no valid options"):
        WordOptions.read(tmp_path)


def test_a_file_that_lacks_an_array_is_refused(tmp_path: Path) -> None:
    arrays = {**Vocabulary.of(["a"]).arrays}
    del arrays["keys"]
    save_file(arrays, tmp_path / MAPPED)
    with pytest.raises(ModelError, match=r"lacks \['keys'\]"):
        read_vocabulary(tmp_path)


def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / MAPPED).write_bytes(b"12345678901234567890")
    with pytest.raises(ModelError, match=r"vocabulary\.safetensors cannot be read"):
        read_vocabulary(tmp_path)


def test_a_list_that_lacks_the_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / LISTED).write_text("{}")
    with pytest.raises(ModelError, match="vocab"):
        read_vocabulary(tmp_path)
