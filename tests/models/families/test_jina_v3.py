"""Tests of Jina v3 against transformers, in both layouts; transformers has no adapters of it."""

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor
from transformers import AutoModel, JinaEmbeddingsV3ForMaskedLM

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.positions.schemes import Rotary
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import (
    assert_refused,
    assert_same_weights,
    change,
    edit,
    loaded,
)
from tests.models.jina_adapters import TASKS, write_adapters, write_modules

TURNS = {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
CASES = [
    *(
        Case("jina_embeddings_v3", {"hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu")
    ),
    Case("jina_embeddings_v3", {"type_vocab_size": 2, "layer_norm_eps": 0.05, **TURNS}),
    Case("jina_embeddings_v3", model=JinaEmbeddingsV3ForMaskedLM),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_the_names_of_transformers_lead_to_the_same_weights(tmp_path: Path) -> None:
    model = write(CASES[0], tmp_path)
    own = loaded(tmp_path)
    model.save_pretrained(tmp_path, save_original_format=False)
    assert_same_weights(loaded(tmp_path), own)


def test_the_keys_of_its_own_code_say_the_same(tmp_path: Path) -> None:
    model = write(Case("jina_embeddings_v3", TURNS), tmp_path)
    change(tmp_path, lambda tensors: {f"roberta.{name}": part for name, part in tensors.items()})
    own = {"model_type": "xlm-roberta", "position_embedding_type": "rotary"}
    edit(tmp_path, "rope_parameters", **own, rotary_emb_base=50.0)
    assert_equal_states(model, tmp_path)
    assert families.read(tmp_path).config.family == "jina_embeddings_v3"


def test_an_adapter_is_added_to_every_matrix_and_table(tmp_path: Path) -> None:
    write_adapters(tmp_path / "merged", tmp_path / "own", 1)
    assert_equal_states(AutoModel.from_pretrained(tmp_path / "merged"), tmp_path / "merged")
    expected = loaded(tmp_path / "merged")
    spec = families.read(tmp_path / "own").with_adapter("retrieval.passage")
    actual = weights.load(tmp_path / "own", spec)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, atol=1e-6, rtol=1e-6)
    plain = weights.load(tmp_path / "own", families.read(tmp_path / "own").with_adapter("none"))
    assert all(abs(plain[n] - actual[n]).max() > 0.1 for n in plain if plain[n].ndim > 1)


@pytest.mark.parametrize("name", ["auto", "clustering"])
def test_the_task_of_an_adapter_must_be_named(name: str, tmp_path: Path) -> None:
    write_adapters(tmp_path / "merged", tmp_path / "own", 1)
    with pytest.raises(ModelError, match=r"one of retrieval.query, .*text-matching, or none"):
        families.read(tmp_path / "own").with_adapter(name)
    with pytest.raises(ModelError, match="the model has no adapters"):
        families.read(tmp_path / "merged").with_adapter("text-matching")


def test_an_adapter_that_lacks_a_task_is_refused(tmp_path: Path) -> None:
    write_adapters(tmp_path / "merged", tmp_path / "own", 1)
    edit(tmp_path / "own", lora_adaptations=[*TASKS, "separation"])
    with pytest.raises(ModelError, match=r"lora_A has 3 parts for"):
        weights.load(
            tmp_path / "own", families.read(tmp_path / "own").with_adapter("text-matching")
        )


def test_an_adapter_of_other_sizes_than_its_matrix_is_refused(tmp_path: Path) -> None:
    write_adapters(tmp_path / "merged", tmp_path / "own", 1)

    def narrowed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        name = next(name for name in tensors if "layers.0" in name and name.endswith("lora_A"))
        return {**tensors, name: tensors[name][..., :-1].contiguous()}

    change(tmp_path / "own", narrowed)
    spec = families.read(tmp_path / "own").with_adapter("retrieval.passage")
    with pytest.raises(ModelError, match=r"has the shape .*, and the adapter's"):
        weights.load(tmp_path / "own", spec)


def test_the_module_of_its_own_code_is_read_as_a_transformer(tmp_path: Path) -> None:
    write_adapters(tmp_path / "merged", tmp_path / "own", 1)
    for folder in (tmp_path / "own", tmp_path / "merged"):
        write_modules(folder)
    chosen = [
        model_fingerprint.fingerprint(
            ModelDescription.read(tmp_path / "own", ModelOptions(adapter=task))
        )
        for task in TASKS
    ]
    assert len({*chosen}) == len(TASKS)
    with pytest.raises(ModelError, match="remote code, which is not run"):
        ModelDescription.read(tmp_path / "merged")


def test_decoders_and_other_turns_are_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_refused(
        tmp_path,
        is_decoder=True,
        rotary_emb_dim=8,
        rotary_emb_scale_base=512,
        rotary_emb_interleaved=True,
    )


def test_the_base_of_the_turns_has_its_default(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters")
    assert families.read(tmp_path).config.attention.positions == Rotary(dim=16, base=20_000.0)
