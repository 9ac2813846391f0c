"""Tests of the kernels' poolings."""

import re

import pytest
from embedwell_models.cpu_backend.pooling import pooling_index

from embedwell_models.cpu_backend import library
from embedwell_models.encoder.pooling import POOLINGS


def test_the_kernels_have_every_pooling_in_the_order_of_their_source() -> None:
    source = library.FOLDER.joinpath("pool.h").read_text(encoding="utf-8")
    (names,) = re.findall(r"enum class Pooling : int64_t \{ (.*) \}", source)
    assert names.split(", ") == [*POOLINGS]
    assert [pooling_index(mode) for mode in POOLINGS] == [*range(len(POOLINGS))]


def test_an_unknown_pooling_is_refused_with_those_of_the_kernels() -> None:
    with pytest.raises(ValueError, match="no pooling mode 'no_such_mode'; they have"):
        pooling_index("no_such_mode")
