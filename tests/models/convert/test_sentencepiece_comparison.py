"""Kinds of texts that a converted tokenizer reads otherwise than SentencePiece."""

from pathlib import Path

import pytest

from tests.models import raw
from tests.models.convert.pieces import converted, sentencepiece_file, tokens


def test_kinds_of_texts_that_are_read_otherwise_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (source := tmp_path / "source").mkdir()
    raw.write("llama_legacy", source)
    changed = {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True}
    raw.pieces("tokenizer.model", **{**raw.LLAMA, **changed})(source)
    ours, file = converted(source, tmp_path / "target"), sentencepiece_file(source)
    text = "ｔｈｅ ﬁrst ｶﾞ"
    assert tokens(ours, text) == file.encode(text, out_type=str)
    (message,) = caplog.messages
    assert "tokenizer.model: SentencePiece reads several spaces, outer spaces like" in message
