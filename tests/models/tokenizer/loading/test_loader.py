"""Tests of the files of a folder's tokenizer, and of the errors if it has none."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer as Rust
from tokenizers import normalizers

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import kinds, raw
from tests.models.tiny import VOCABULARY, write_tokenizer


@pytest.mark.parametrize("case", raw.CASES)
def test_older_files_are_refused_with_the_command(case: str, tmp_path: Path) -> None:
    folder = raw.write(case, tmp_path)
    with pytest.raises(ModelError, match=r"has no tokenizer\.json: `embedwell convert"):
        Tokenizer(folder, 64)


def test_the_error_names_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json$"):
        Tokenizer(tmp_path, 64)


def test_the_error_names_the_folder_of_a_broken_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(tmp_path, 64)


def test_tokenizer_json_takes_precedence_over_older_files(tmp_path: Path) -> None:
    folder = kinds.write("wordlevel", raw.write("bert", tmp_path))
    assert loader.files(folder) == [folder / "tokenizer.json"]
    assert len(Tokenizer(folder, 64).encode(["the work"])[0].ids) == 2


def test_a_marker_of_the_vocabulary_is_one_token(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    ids = [
        Tokenizer(tmp_path, 64, markers=names).encode(["##a of"])[0].ids
        for names in ((), ("##a ",))
    ]
    assert [len(row) for row in ids] == [6, 4]
    assert ids[1][1] == VOCABULARY["##a"]


def test_markers_that_the_vocabulary_lacks_are_texts(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    plain, marked = (Tokenizer(tmp_path, 64, markers=names) for names in ((), ("[Q] ", " ", "")))
    assert marked.encode(["[Q] of"])[0].ids == plain.encode(["[Q] of"])[0].ids


def test_a_tokenizer_that_panics_while_it_is_loaded_is_refused(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    path = str(tmp_path / "tokenizer.json")
    rust = Rust.from_file(path)
    rust.normalizer = normalizers.Precompiled(b"\4\0\0\0" + b"\xff" * 4)  # leads beyond its end
    rust.save(path)
    with pytest.raises(ModelError, match="its file is broken: index out of bounds"):
        loader.load(tmp_path)
