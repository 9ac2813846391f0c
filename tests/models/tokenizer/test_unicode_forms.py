"""Texts of decomposed letters, which tokenizers read as composed ones if a setting says so."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Rust
from tokenizers import normalizers

from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.loading.tokenizer_kind import CHARACTER_FILE
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import raw
from tests.models.published_pieces import DECOMPOSED, write_published
from tests.models.tiny import write_tokenizer

HALF_WIDTH = "ｶﾞｷﾞ ﾊﾟ"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_published(tmp_path_factory.mktemp("published"))


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


def test_decomposed_texts_have_the_vectors_of_composed_ones(folder: Path) -> None:
    composing, plain = load(folder, unicode_normalization="nfc"), load(folder)
    assert composing.fingerprint != plain.fingerprint
    texts = [*DECOMPOSED, HALF_WIDTH]
    composed = [unicodedata.normalize("NFKC", text) for text in texts]
    expected = composing.embed(composed)
    assert np.array_equal(composing.embed(texts), expected)
    assert np.array_equal(plain.embed(composed), expected)
    similarities = (plain.embed(texts) * expected).sum(axis=1)
    assert max(similarities / np.linalg.norm(expected, axis=1) ** 2) < 0.99, "marks are lost"
    assert composing.fingerprint != plain.fingerprint
    assert (composing.unicode_normalization, plain.unicode_normalization) == ("nfc", "none")


def test_offsets_are_those_of_the_text_as_given(folder: Path) -> None:
    tokenizer = load(folder, unicode_normalization="nfc").tokenizer
    for text, composed in zip(DECOMPOSED, raw.COMPOSED, strict=False):
        tokens = [token for token in tokenizer.tokens(text) if not token.special]
        same = [token for token in tokenizer.tokens(composed) if not token.special]
        read = [unicodedata.normalize("NFC", token.text) for token in tokens]
        assert read == [token.text for token in same]
        assert [text[token.start : token.stop] for token in tokens] == [t.text for t in tokens]


def test_a_long_text_is_read_in_chunks_as_whole(folder: Path) -> None:
    long = " ".join(DECOMPOSED * 50)
    whole = Tokenizer(folder, 4000, compose=True)
    chunked = Tokenizer(folder, 4000, compose=True, chunk_size=64)
    assert chunked.encode([long])[0].ids == whole.encode([long])[0].ids


def test_steps_inside_another_sequence_are_composed_after(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "tokenizer.json"
    rust = Rust.from_file(str(folder / "tokenizer.json"))
    rust.normalizer = normalizers.Sequence([normalizers.Sequence([rust.normalizer])])
    rust.save(str(path))
    nested, flat = (loader.load(f, compose=True).rust for f in (tmp_path, folder))
    assert nested.encode(HALF_WIDTH).tokens == flat.encode(HALF_WIDTH).tokens


def test_a_tokenizer_without_a_normalizer_composes(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    path = tmp_path / "tokenizer.json"
    rust = Rust.from_file(str(path))
    rust.normalizer = None
    rust.save(str(path))
    assert loader.load(tmp_path, compose=True).rust.normalizer.normalize_str("e\u0301") == "é"


def test_an_unknown_form_and_a_tokenizer_in_python_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"unicode_normalization 'nfd' is not one of"):
        load(folder, unicode_normalization="nfd")
    (tmp_path / CHARACTER_FILE).write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match="nfc is not supported with this tokenizer; normalise"):
        Tokenizer(tmp_path, 64, compose=True)
