"""Tests of the order of an image encoder's tensors."""

from pathlib import Path

import numpy as np

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_vision import image_weights
from embedwell_vision.image_weights import PlaceTables, channels_first
from embedwell_vision.positions import PatchPlaces
from embedwell_vision.specs import ImageTokenSpec
from tests.models import qwen3_vl
from tests.models.embedding_gemma2 import write_images_model


def test_channels_of_a_patch_are_put_side_by_side() -> None:
    pixels = np.arange(2 * 2 * 3).reshape(1, -1)
    assert channels_first(pixels, 2).tolist() == [[0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]]


def test_heads_of_gemma_are_ordered_and_those_of_others_are_not(tmp_path: Path) -> None:
    for write, changes in ((write_images_model, True), (qwen3_vl.write_model, False)):
        folder = tmp_path / write.__name__
        write(folder)
        spec = families.read(folder).image_tokens
        assert isinstance(spec, ImageTokenSpec)
        stored, ordered = weights.load(folder, spec.encoder), image_weights.load(folder, spec)
        assert stored.keys() == ordered.keys()
        changed = {name for name in stored if not np.array_equal(stored[name], ordered[name])}
        parts = ("query", "key", "query_norm", "key_norm")
        names = {f"layers.{layer}.{part}.weight" for layer in (0, 1) for part in parts}
        assert changed == ({*names, "patch.weight"} if changes else set())
        if changes:
            head, norm = (each["layers.0.key_norm.weight"] for each in (ordered, stored))
            quarters = norm.reshape(4, -1)
            assert np.array_equal(head, quarters[[2, 0, 3, 1]].ravel())


def test_a_place_has_the_vectors_of_its_column_and_its_row() -> None:
    columns, rows = np.arange(8.0, dtype=np.float32), np.arange(8.0, dtype=np.float32) * 10
    tables = weights.StoredWeights({"patch.columns.weight": columns, "patch.rows.weight": rows})
    places = PatchPlaces(row=np.array([0, 3]), column=np.array([1, 2]))
    found = PlaceTables.of(tables, 2)
    assert found is not None
    assert found.vectors(places).tolist() == [[2.0, 13.0], [64.0, 75.0]]
    assert PlaceTables.of(weights.StoredWeights({}), 2) is None
