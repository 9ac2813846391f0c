"""The reader of SentencePiece files, beside SentencePiece's own."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from models.errors import ModelError
from models.vocabulary.sentencepiece import SentencePiece
from tests.models import raw


@pytest.mark.parametrize("training", [raw.T5, raw.ALBERT, raw.DEBERTA, raw.LLAMA, raw.GEMMA])
def test_a_file_reads_as_sentencepiece_reads_it(tmp_path: Path, training: Any) -> None:
    raw.pieces("a.model", **training)(tmp_path)
    found = SentencePiece.read(tmp_path / "a.model")
    schema: Any = sentencepiece_model_pb2
    expected = schema.ModelProto.FromString((tmp_path / "a.model").read_bytes())
    pieces = [(piece.text, piece.score, piece.type) for piece in found.pieces]
    assert pieces == [(piece.piece, piece.score, piece.type) for piece in expected.pieces]
    assert found.charsmap == expected.normalizer_spec.precompiled_charsmap
    assert found.model == {1: "unigram", 2: "bpe"}[expected.trainer_spec.model_type]


def test_merges_make_the_pieces_in_their_order(tmp_path: Path) -> None:
    raw.pieces("a.model", **raw.LLAMA)(tmp_path)
    file = SentencePiece.read(tmp_path / "a.model")
    order = [piece.text for piece in file.pieces]
    made = [order.index(left + right) for left, right in file.merges()]
    assert made == sorted(made) and order.index("▁the") in made


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("pieces")
    raw.pieces("a.model", **raw.LLAMA)(folder)
    return (folder / "a.model").read_bytes()


@given(data=st.data())
def test_a_file_that_was_cut_or_damaged_is_read_or_refused(
    content: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.model"
    damaged = bytearray(content[: data.draw(st.integers(0, len(content)))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    try:
        SentencePiece.read(path)
    except ModelError as error:
        assert "damaged.model is not a SentencePiece model" in str(error)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.model").write_bytes(b"")
    with pytest.raises(ModelError, match="it has no pieces"):
        SentencePiece.read(tmp_path / "a.model")


def test_control_symbols_are_special_and_those_of_users_are_not(tmp_path: Path) -> None:
    raw.pieces("a.model", **raw.GEMMA)(tmp_path)
    special = {t.content: t.special for t in SentencePiece.read(tmp_path / "a.model").added}
    assert special["<bos>"] and special["<start_of_turn>"] is False
