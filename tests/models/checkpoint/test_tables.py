"""Tables and matrices: parts that do not fit together are refused by name."""

import numpy as np
import pytest

from embedwell_models.checkpoint import tables
from embedwell_models.checkpoint.tables import Array, LayerMatrix, TensorNames, is_table
from embedwell_models.errors import ModelError

NAMES = TensorNames("emb_layer", "emb_layer.weight", "emb_layer.scales")
CODES = np.zeros((5, 3), np.uint8)
CODEBOOKS = np.ones((3, 4, 2), np.float32)


def test_names_of_parts_are_translated_both_ways() -> None:
    ours = {
        "emb_layer.weight": "token_table",
        "emb_layer.scales": "token_scales",
        "emb_layer.codes": "token_codes",
        "emb_layer.codebooks": "token_codebooks",
        "emb_layer.pool": "token_pool",
        "emb_layer.importance": "token_importance",
        "emb_layer.tier0": "token_tier0",
        "emb_layer.directions12": "token_directions12",
    }
    assert NAMES.ours([*ours, "emb_layer.other", "codes", "token_codes"]) == ours
    assert {NAMES.theirs(part): part for part in ours.values()} == ours


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"token_codes": CODES}, "lacks the table's codebooks"),
        ({"token_codes": CODES.astype(int), "token_codebooks": CODEBOOKS}, "a byte for each"),
        ({"token_codes": CODES[:, :2], "token_codebooks": CODEBOOKS}, "a byte for each"),
        ({"token_codes": CODES, "token_codebooks": CODEBOOKS[0]}, "a byte for each"),
        ({"token_tier0": CODES, "token_directions0": CODEBOOKS[0]}, "tier 0 do not fit"),
        ({"token_tier0": CODES, "token_tier2": CODES}, "lacks the table's tier1"),
        ({"token_tier0": CODES, "token_tier1": CODES[:, :2]}, "different widths"),
        ({"token_pool": CODEBOOKS[0]}, "lacks the table's importance"),
        ({"token_pool": CODEBOOKS[0], "token_importance": CODES}, "a sum of two rows"),
        ({"token_pool": CODEBOOKS[0, :1], "token_importance": CODES[:, :2]}, "a sum of two rows"),
        ({"token_table": CODEBOOKS}, "a table of shape"),
        ({"token_table": CODES, "token_scales": np.ones(4)}, r"scales of shape \(4,\) for 5 rows"),
    ],
    ids=str,
)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, Array], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        tables.build(parts)


def test_a_code_without_a_vector_and_infinity_are_refused() -> None:
    parts: dict[str, Array] = {"token_codes": CODES, "token_codebooks": CODEBOOKS}
    names = {"a.codes": "token_codes", "a.codebooks": "token_codebooks"}
    tables.check(parts, names)
    with pytest.raises(ModelError, match=r"a\.codes has codes beyond the 4"):
        tables.check(parts | {"token_codes": CODES + np.uint8(4)}, names)
    with pytest.raises(ModelError, match=r"a\.codebooks has NaN or infinity"):
        tables.check(parts | {"token_codebooks": CODEBOOKS * np.inf}, names)
    brain = np.full((2, 2), 0x7F80, np.uint16)  # infinity in bfloat16
    with pytest.raises(ModelError, match="a has NaN or infinity"):
        tables.check({"token_table": brain}, {"a": "token_table"})


def test_rows_are_those_of_the_decoded_matrix() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    matrix = LayerMatrix("a", (4, 3), whole.copy)
    rows = matrix.rows(1, 3)
    assert rows.shape == (2, 3)
    assert np.array_equal(rows.to_float32(), whole[1:3])
    assert np.array_equal(matrix[np.array([3, 0])], whole[[3, 0]])


def test_parts_of_another_shape_are_refused_by_name() -> None:
    matrix = LayerMatrix("the layer", (4, 3), lambda: np.zeros((3, 4), np.float32))
    with pytest.raises(ModelError, match="the layer: its parts have the shapes of"):
        matrix.to_float32()


def test_a_model_with_layers_or_norms_is_not_a_table() -> None:
    assert is_table(["token_table"]) and is_table([])
    assert not is_table(["token_table", "norm.weight"])
