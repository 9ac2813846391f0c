"""A tokenizer whose Rust code panics, at load and for some texts."""

from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.rust_tokenizer import TokenizerPanicError
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.tiny import panicking


def test_a_tokenizer_that_panics_at_load_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="its file is broken: AddedVocabulary bad split"):
        Tokenizer(panicking(tmp_path, ")"), 64)


def test_a_panic_for_a_text_is_an_error_of_that_text_alone(tmp_path: Path) -> None:
    tokenizer = Tokenizer(panicking(tmp_path, "e"), 64)
    expected = tokenizer.encode(["the license"])
    with pytest.raises(TokenizerPanicError, match="cannot read a text"):
        tokenizer.encode(["the  license"])
    with pytest.raises(TokenizerPanicError, match="cannot read a text"):
        tokenizer.tokens("the  license")
    assert tokenizer.encode(["the license"]) == expected
