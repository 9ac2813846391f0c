"""Tests of a model of every family: through the facade, and in torch's layers as a GPU has them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, __version__

from embedwell_models import Embedder, families
from embedwell_models.checkpoint import weights
from embedwell_models.config.json_config import read_json
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import normalize
from tests.conftest import precisions
from tests.models.built import SHORT
from tests.models.families.checkpoint import CPU, Case, encoder, texts
from tests.models.families.every import (
    EVERY,
    LACKING,
    OTHERS,
    TEXTS,
    every_family,
    import_tests,
    write_model,
)
from tests.models.meta import META, OnDevice, Sent

# Of random weights, in which no direction is more important than another; trained ones lose less.
LEAST = {"float32": 0.999999, "bfloat16": 0.998, "int8": 0.97 if SHORT else 0.99}
# Where all is rounded, not the products alone; without mT5, bfloat16 has 0.996.
HALVES = {torch.float16: 0.999, torch.bfloat16: 0.98}

# Of which every checkpoint tells its own, and what follows from them.
SIZES = {
    *("vocab_size", "max_position_embeddings", "n_positions", "max_seq_len"),
    *("hidden_size", "dim", "d_model", "n_embd", "embedding_size", "head_dim", "d_kv", "d_head"),
    *("num_hidden_layers", "num_layers", "n_layers", "n_layer"),
    *("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"),
    *("num_attention_heads", "num_heads", "n_heads", "n_head", "num_key_value_heads"),
    *("intermediate_size", "hidden_dim", "d_ff", "d_inner"),
    *("layer_types", "attention_types", "attention_layers", "per_layer_config", "model_type"),
}


Written = Callable[[Case], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Function that returns the folder of a family's model, which its first call writes."""
    folders: dict[str, Path] = {}

    def folder(case: Case) -> Path:
        name = str(case)
        if name not in folders:
            write_model(case, folders.setdefault(name, tmp_path_factory.mktemp("model")))
        return folders[name]

    return folder


def test_a_class_that_transformers_lacks_removes_its_family_alone() -> None:
    def lack_class(name: str) -> ModuleType:
        from transformers import BertOfTheFuture  # type: ignore[attr-defined]

        raise AssertionError(f"{name} has {BertOfTheFuture}")

    def lack_ours(name: str) -> ModuleType:
        from embedwell_models.families import future  # type: ignore[attr-defined]

        raise AssertionError(f"{name} has {future}")

    reason = import_tests("families.test_bert", lack_class)
    assert isinstance(reason, str) and "BertOfTheFuture" in reason and __version__ in reason
    with pytest.raises(ImportError, match="future"):
        import_tests("families.test_bert", lack_ours)


def test_this_transformers_has_the_classes_of_every_family() -> None:
    assert LACKING == {}


def test_there_is_a_case_for_every_family() -> None:
    twins = {"new": "gte", "camembert": "roberta", "xlm-roberta": "roberta"}
    known = {case.model_type for case in EVERY}
    missing = {twins.get(name, name) for name in families.by_model_type()} - OTHERS - known
    assert not missing, "add its test to _TESTED in every.py, or its name to OTHERS"


@every_family
@pytest.mark.full(after=2)
def test_every_precision_is_faithful_and_a_text_is_the_same_bits_in_every_batch(
    case: Case, written: Written
) -> None:
    embedders = {dtype: Embedder.load(written(case), dtype=dtype) for dtype in precisions()}
    expected = normalize(embedders["float32"].embed(TEXTS))
    for dtype, embedder in embedders.items():
        vectors = embedder.embed(TEXTS)
        cosines = (normalize(vectors) * expected).sum(axis=1)
        assert cosines.min() >= LEAST[dtype], f"{dtype}: {cosines}"
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text])[0], vector)


@every_family
def test_what_a_config_leaves_out_is_what_transformers_takes(
    case: Case, written: Written, tmp_path: Path
) -> None:
    told, path = read_json(written(case) / "config.json"), tmp_path / "config.json"
    usual = AutoConfig.for_model(case.model_type).to_dict()

    def read(config: dict[str, Any]) -> ModelSpec | str:
        path.write_text(json.dumps(config), encoding="utf-8")
        try:
            return families.read(tmp_path)
        except ModelError as error:  # a default that does not fit the sizes of this model
            return str(error)

    for key in usual.keys() - SIZES:
        without = {name: value for name, value in told.items() if name != key}
        assert read(without) == read({**told, key: usual[key]}), key


class OnePrecision(TorchFunctionMode):
    """Refuses a mask of another precision than the queries', as a GPU's kernels do."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            assert kwargs["attn_mask"].dtype == args[0].dtype
        return func(*args, **(kwargs or {}))


@every_family
@pytest.mark.full(after=2)
def test_layers_of_half_precision_are_faithful(case: Case, written: Written) -> None:
    folder = written(case)
    rows = texts(families.read(folder).config.vocab_size)
    batch = Batch.of([row.numpy() for row in rows])
    expected = normalize(encoder(folder).vectors(batch, ["mean"]))
    for dtype, least in HALVES.items():
        half = encoder(folder, TorchLinearFactory(CPU, dtype))
        with OnePrecision():
            vectors = normalize(half.vectors(batch, ["mean"]))
        cosines = (vectors * expected).sum(axis=1)
        assert cosines.min() >= least, f"{dtype}: {cosines}"


def on_meta(folder: Path) -> Callable[[], Tensor]:
    """A pass over texts, of which one has several blocks of queries."""
    spec = families.read(folder)
    loaded = weights.load(folder, spec)
    parts = InputEmbeddings(spec.config, loaded, META)
    layers = TorchLayers(spec.config, loaded, TorchLinearFactory(META, torch.bfloat16), META)
    layout = SequenceLayout([3, 40, 600], META, torch.bfloat16)
    ids = torch.zeros_like(layout.positions)
    return lambda: layers(parts(ids, layout).to(layers.dtype), layout, len(layers))


@every_family
@pytest.mark.full(after=8)
def test_what_the_host_knows_of_a_batch_is_sent_once(case: Case, written: Written) -> None:
    compute = on_meta(written(case))
    with Sent():  # type: ignore[no-untyped-call]
        compute()
    with OnDevice():  # type: ignore[no-untyped-call]
        compute()
