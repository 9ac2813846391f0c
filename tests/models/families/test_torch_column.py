"""The column `torch` of the table of families, held to what the kernels compute."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec, DeltaNetSpec, LayerSpec
from embedwell_models.cpu_backend.support import why_unsupported
from tests.models.families.checkpoint import Case, write
from tests.models.families.every import every_family

HEAD_SIZE = 32
NEED_TORCH = {  # the model types of this test, where the column names a part of a family
    "of code": set[str](),
    "classifiers": set[str](),
    "small models": {"electra"},
}


@pytest.mark.full
@every_family
def test_the_column_says_which_models_need_torch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    layout = families.read(tmp_path)
    arrays = weights.load(tmp_path, layout)
    named = column(case.model_type)
    needed = named == "yes" or case.model_type in NEED_TORCH.get(named, ())
    assert bool(why_unsupported(*of_a_usual_size(layout.config, arrays))) is needed


def column(model_type: str) -> str:
    """What the table says of the family of a model type; variants of it have later rows."""
    return families.by_model_type()[model_type].rows[0].torch


def of_a_usual_size(config: EncoderConfig, arrays: Weights) -> tuple[EncoderConfig, Weights]:
    """Give a tiny model heads and a network of widths that published models have."""
    layers = tuple(_resized(layer, config.hidden_size) for layer in config.layers)
    sizes = {
        layer.mixer.head_size for layer in config.layers if isinstance(layer.mixer, AttentionSpec)
    }
    norms = {
        name: np.ones(HEAD_SIZE, np.float32)
        for name, array in arrays.items()
        if name.endswith(("query_norm.weight", "key_norm.weight")) and len(array) in sizes
    }
    if "gates_norm.weight" in arrays:
        norms["gates_norm.weight"] = np.ones(64, np.float32)
    return replace(config, layers=layers), {**arrays, **norms}


def _resized(layer: LayerSpec, width: int) -> LayerSpec:
    mixer = layer.mixer
    if isinstance(mixer, AttentionSpec):
        heads = width // HEAD_SIZE
        mixer = replace(mixer, heads=heads, kv_heads=heads, head_size=HEAD_SIZE)
    if isinstance(mixer, DeltaNetSpec):
        mixer = replace(mixer, size=2 * HEAD_SIZE, key_size=HEAD_SIZE)
    return replace(layer, mixer=mixer, feed_forward=replace(layer.feed_forward, inner=64))
