"""The benchmark of images: its contestants, inputs and report."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.image_models import SHAPES
from benchmarks.images import contestants, draw_images, report
from benchmarks.machine import describe
from benchmarks.peers.images import ENGINES, read


@pytest.mark.parametrize("model", SHAPES)
def test_contestants_of_a_model_have_engines_and_names_of_their_own(model: str) -> None:
    chosen = contestants(model)
    assert {each.engine for each in chosen} <= {*ENGINES}
    assert len({each.name for each in chosen}) == len(chosen)
    assert chosen[0].name == "sentence-transformers, float32"
    if SHAPES[model].open_clip is None:
        assert not any(each.engine.startswith("open_clip") for each in chosen)


def test_images_are_drawn_by_their_number(tmp_path: Path) -> None:
    one, two = (read(draw_images(tmp_path, 3, count)) for count in (1, 2))
    assert (len(one), len(two)) == (1, 2) and one[0] == two[0] != two[1]
    with Image.open(draw_images(tmp_path, 3, 1) / "00.jpg") as image:
        assert image.size == (640, 480)


def test_the_report_has_a_cosine_only_where_weights_are_the_same() -> None:
    def engine(seconds: float, cosine: float | None) -> dict[str, Any]:
        times = {"16": [16 * seconds, 8 * seconds], "1": [seconds] * 2}
        return {"seconds": times, "start": 1.0, "peak": 9.0, "min_cosine": cosine}

    engines = {"OpenCLIP": engine(2.0, None), "this": engine(0.5, 0.99996)}
    whole = {"machine": describe(), "threads": 2, "rounds": 2, "engines": engines}
    *_, other, ours = report({**whole, "model": "siglip"}).splitlines()
    rest = ["1.0", "9"]
    assert other.split() == ["OpenCLIP", "0.75", "(0.50-1.00)", "2000.0", "(2000.0-2000.0)", *rest]
    expected = ["this", "3.00", "(2.00-4.00)", "500.0", "(500.0-500.0)", *rest, "0.99996"]
    assert ours.split() == expected
