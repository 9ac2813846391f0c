"""Outputs of BGE-M3 from one forward pass, against its formulas."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from embedwell_classic.convert.model import convert_folder
from embedwell_models import Embedder
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.vectors import Floats
from tests.models.families.exact import assert_near, each_exactly
from tests.models.sparse_encoder import write_bge_m3
from tests.models.tiny import VOCABULARY

TEXTS = ["the license", "work of work, by any work", "x", "you and " * 20, ""]
IGNORED = [VOCABULARY[name] for name in ("[CLS]", "[SEP]", "[PAD]", "[UNK]")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bge_m3(tmp_path_factory.mktemp("bge-m3"))


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


class Published:
    """The formulas of BGE-M3 (arXiv 2402.03216), on the encoder of transformers."""

    def __init__(self, folder: Path) -> None:
        auto: Any = AutoModel
        self.model, self.tokenizer = (
            auto.from_pretrained(folder),
            AutoTokenizer.from_pretrained(folder),
        )
        self.linear, self.layer = (
            load_file(folder / f"{name}_linear.safetensors") for name in ("sparse", "colbert")
        )

    def outputs(self, text: str) -> tuple[Any, dict[int, float], Any]:
        """The dense vector, the largest relu(w x + b) of each token, and unit vectors W x + b.

        The vectors are those of all tokens but the first.
        """
        ids = self.tokenizer(
            [text], return_tensors="pt", truncation=True, return_token_type_ids=False
        )
        linear, layer = self.linear, self.layer
        with torch.inference_mode():
            (states,) = self.model(**ids).last_hidden_state
            weights = torch.relu(states @ linear["weight"].T + linear["bias"]).flatten()
            multi = F.normalize(states[1:] @ layer["weight"].T + layer["bias"], dim=-1)
        largest: dict[int, float] = {}
        for id, weight in zip(ids["input_ids"][0].tolist(), weights.tolist(), strict=True):
            if id not in IGNORED and weight > largest.get(id, 0.0):
                largest[id] = weight
        return states[0].numpy(), largest, multi.numpy()


def reference(folder: Path, text: str) -> tuple[Any, dict[int, float], Any]:
    """The outputs of a folder, in float32."""
    return Published(folder).outputs(text)


@each_exactly
def exact_outputs(published: Published, text: str) -> list[Any]:
    """The outputs, with the weights of all tokens of the vocabulary: (V,)."""
    dense, largest, multi = published.outputs(text)
    weights = torch.zeros(len(VOCABULARY))
    for id, weight in largest.items():
        weights[id] = weight
    return [dense, weights, multi]


def in_vocabulary(vector: SparseVector) -> Floats:
    """The weights of all tokens of the vocabulary: (V,)."""
    weights = np.zeros(len(VOCABULARY), dtype=np.float32)
    weights[vector.indices] = vector.weights
    return weights


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_all_outputs_of_one_pass_equal_the_formulas(folder: Path, isa: str) -> None:
    embedder = load(folder, isa=isa)
    assert embedder.output_names == (DENSE, SPARSE, MULTI)
    outputs = embedder.outputs(embedder.tokenize(TEXTS), [DENSE, SPARSE, MULTI])
    published = Published(folder)
    for text, text_outputs in zip(TEXTS, outputs, strict=True):
        dense, sparse, multi = exact_outputs(published, text)
        assert text_outputs.dense is not None and text_outputs.sparse is not None
        assert text_outputs.multi is not None
        assert_near(text_outputs.multi, multi)
        assert_near(text_outputs.dense, dense)
        assert text_outputs.sparse.indices.tolist() == sparse.values.nonzero().flatten().tolist()
        assert_near(in_vocabulary(text_outputs.sparse), sparse)


def test_a_dense_vector_has_the_same_bits_with_and_without_the_sparse_one(folder: Path) -> None:
    embedder = load(folder)
    ids = embedder.tokenize(TEXTS)
    dense = embedder.encode(ids, normalized=False)
    outputs = embedder.outputs(ids, [DENSE, SPARSE])
    together = [text.dense for text in outputs if text.dense is not None]
    assert np.array_equal(dense, np.stack(together))


def test_a_text_is_the_same_bits_alone_and_in_a_batch(folder: Path) -> None:
    embedder = load(folder)
    together = embedder.outputs(embedder.tokenize(TEXTS), [SPARSE, DENSE, MULTI])
    for text, expected in zip(TEXTS, together, strict=True):
        (alone,) = embedder.outputs(embedder.tokenize([text]), [SPARSE, DENSE, MULTI])
        assert np.array_equal(alone.pack(), expected.pack())


def test_pickled_heads_are_converted_with_the_encoder(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(folder, source)
    for name in ("model", "sparse_linear", "colbert_linear"):
        tensors = load_file(source / f"{name}.safetensors")
        (source / f"{name}.safetensors").unlink()
        pickle = "pytorch_model.bin" if name == "model" else f"{name}.pt"
        torch.save({key: tensor.half() for key, tensor in tensors.items()}, source / pickle)
    convert_folder(source, tmp_path / "converted")
    converted = load(tmp_path / "converted")
    assert converted.output_names == (DENSE, SPARSE, MULTI)
    expected, outputs = (
        embedder.outputs(embedder.tokenize(TEXTS[:1]), [SPARSE])[0].sparse
        for embedder in (load(folder), converted)
    )
    assert expected is not None and outputs is not None
    assert outputs.indices.tolist() == expected.indices.tolist()
    np.testing.assert_allclose(outputs.weights, expected.weights, rtol=0.05)  # from half precision
    assert not list((tmp_path / "converted").glob("*.pt"))


def test_only_what_is_requested_is_returned(folder: Path) -> None:
    embedder = load(folder)
    (outputs,) = embedder.outputs(embedder.tokenize(["work"]), [SPARSE])
    assert outputs.dense is None and outputs.sparse is not None


def test_the_vectors_of_tokens_are_those_of_all_but_the_first(folder: Path) -> None:
    embedder = load(folder)
    ([*ids],) = embedder.tokenize(["the license"])
    (outputs,) = embedder.outputs([ids], [MULTI])
    assert embedder.multi_vector is not None and outputs.multi is not None
    row = np.array(ids, dtype=np.int32)
    vectors, kept_ids = embedder.multi_vector.select(outputs.multi, row, "document")
    assert np.array_equal(vectors, outputs.multi) and kept_ids.tolist() == ids[1:]
