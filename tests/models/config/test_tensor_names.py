"""Our names of tensors."""

from dataclasses import replace

import pytest

from embedwell_models.config import tensor_names
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from tests.models.config.shape import shape


@pytest.mark.parametrize(
    "name",
    ["tokens_table", "embedding_norm.weight", "layers.{}.ffnorm.bias", "layers.{}.norm.weight"],
)
def test_a_name_that_no_layer_reads_is_unknown(name: str) -> None:
    assert tensor_names.unknown(["token_table", "layers.{}.query.bias", name]) == [name]


def test_a_layout_with_an_unknown_name_is_refused() -> None:
    tensors = {"words": "token_table", **affine("layer.{}.norm", "layers.{}.ffnorm")}
    spec = ModelSpec(config=shape(), tensors=tensors)
    with pytest.raises(ValueError, match=r"no layer reads \['layers.{}.ffnorm.bias', .*names"):
        spec.check_tensor_names()
    own = {f"layers.{{}}.ffnorm.{part}": (8,) for part in ("weight", "bias")}
    replace(spec, shapes=own).check_tensor_names()
