"""Tests of the conversion of a file by its name."""

from pathlib import Path

import pytest

from embedwell_models.convert.files import convert_file
from embedwell_models.convert.words.word_embeddings import Choices
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.laser_files import write_laser2
from tests.models.word_files import vectors, write_text


def test_the_ending_of_the_name_decides(tmp_path: Path) -> None:
    write_laser2(tmp_path / "laser2.pt")
    write_text(tmp_path / "words.txt", vectors())
    for name, family in (("laser2.pt", "laser2"), ("words.txt", "word_vectors")):
        convert_file(tmp_path / name, tmp_path / family, Choices())
        assert ModelDescription.read(tmp_path / family).spec.config.family == family


def test_options_of_words_are_refused_for_an_encoder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"--limit.* are for files of word vectors"):
        convert_file(tmp_path / "laser2.pt", tmp_path / "model", Choices(limit=3))
