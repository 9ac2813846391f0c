"""Tests of the encoder against transformers, on weights so large that a wrong detail shows."""

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertModel

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.torch_backend.cuda_graphs import EagerRunner, Forward
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.encoder_factory import TorchEncoderFactory
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import (
    LinearFactory,
    OneDnnLinearFactory,
    TorchLinearFactory,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats
from tests.conftest import Folder
from tests.models.families.checkpoint import Case, write
from tests.models.meta import META, OnDevice

CPU = torch.device("cpu")
F32 = torch.float32
LENGTHS = [3, 64, 1, 17, 16, 33]


def rows(folder: Path) -> list[Tensor]:
    noise = torch.Generator().manual_seed(3)
    vocabulary = families.read(folder).config.vocab_size
    return [torch.randint(vocabulary, (length,), generator=noise) for length in LENGTHS]


def embeddings(folder: Path, device: torch.device = CPU) -> tuple[Weights, InputEmbeddings]:
    spec = families.read(folder)
    loaded = weights.load(folder, spec)
    return loaded, InputEmbeddings(spec.config, loaded, device)


def encoder(folder: Path, linear_factory: LinearFactory | None = None) -> Encoder:
    loaded, parts = embeddings(folder)
    layers = TorchLayers(parts.config, loaded, linear_factory or OneDnnLinearFactory(F32), CPU)
    return TorchEncoder(parts, layers)


def compiled(folder: Path) -> Encoder:
    """The compiled encoder, if there is one for this processor."""
    parts = *embeddings(folder), Calibration(unobserved), None, library.features()
    return TorchEncoderFactory(*parts).build("float32")


def unobserved(encoder: Encoder) -> Floats:
    """Refuse calibration, because float32 needs none."""
    raise AssertionError(encoder)


def batch(rows: Sequence[Tensor]) -> Batch:
    return Batch.of([row.numpy() for row in rows])


def ours(encoder: Encoder, rows: Sequence[Tensor], layer: int) -> list[Tensor]:
    states = torch.from_numpy(encoder.states(batch(rows), layer))
    return list(torch.split(states, [len(row) for row in rows]))


@torch.inference_mode()
def theirs(folder: Path, rows: Sequence[Tensor]) -> list[list[Tensor]]:
    """The hidden states of each row alone, of every layer."""
    model = BertModel.from_pretrained(folder)  # in evaluation mode
    states = [model(row[None], output_hidden_states=True).hidden_states for row in rows]
    return [[state[0] for state in layers] for layers in states]


def assert_equal(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=2e-5)


WIDE = {"hidden_size": 128, "intermediate_size": 192}  # what the compiled layers can compute


@pytest.mark.parametrize("build", [encoder, compiled])
@pytest.mark.parametrize("sizes", [{}, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
@pytest.mark.full(after=1)
def test_every_layer_equals_transformers(
    tiny_bert: Folder,
    activation: str,
    sizes: dict[str, int],
    build: Callable[[Path], Encoder],
) -> None:
    check(tiny_bert(hidden_act=activation, **sizes), build)


def check(folder: Path, build: Callable[[Path], Encoder]) -> None:
    model, given = build(folder), rows(folder)
    expected = theirs(folder, given)
    for layer in range(families.read(folder).config.num_layers + 1):
        for mine, states in zip(ours(model, given, layer), expected, strict=True):
            assert_equal(mine, states[layer])


@pytest.mark.full(after=1)
@pytest.mark.parametrize(
    "sizes",
    [
        {"num_hidden_layers": 1},
        {"num_attention_heads": 1},
        {"hidden_size": 36, "intermediate_size": 52},
        {"type_vocab_size": 1},
    ],
    ids=str,
)
def test_other_shapes_equal_transformers(tiny_bert: Folder, sizes: dict[str, int]) -> None:
    check(tiny_bert(**sizes), encoder)


@pytest.mark.parametrize("build", [encoder, compiled])
def test_every_layer_of_the_default_model_equals_transformers(
    minilm_folder: Path, build: Callable[[Path], Encoder]
) -> None:
    check(minilm_folder, build)


def test_vectors_are_pooled_from_the_last_layer(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    model, given = encoder(folder), rows(folder)
    last = [states[-1] for states in theirs(folder, given)]
    expected = torch.stack([torch.cat([states.mean(0), states[0]]) for states in last])
    assert_equal(torch.from_numpy(model.vectors(batch(given), ["mean", "cls"])), expected)


def test_both_layouts_compute_the_same(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    plain, prepacked = (
        encoder(folder, TorchLinearFactory(CPU, F32)),
        encoder(folder, OneDnnLinearFactory(F32)),
    )
    for a, b in zip(ours(plain, rows(folder), 3), ours(prepacked, rows(folder), 3), strict=True):
        assert_equal(a, b)


def test_the_input_is_rounded_once_however_low_the_precision(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    exact, rounded = encoder(folder), encoder(folder, TorchLinearFactory(CPU, torch.bfloat16))
    for a, b in zip(ours(exact, rows(folder), 0), ours(rounded, rows(folder), 0), strict=True):
        assert torch.equal(a.bfloat16().float(), b)


@pytest.mark.parametrize("part", ["token", "position", "segment"])
def test_a_part_is_its_summand_of_the_input(tiny_bert: Folder, part: str) -> None:
    folder = tiny_bert()
    _, parts = embeddings(folder)
    given = torch.cat(rows(folder))
    tables = BertModel.from_pretrained(folder).embeddings
    lookups = {
        "token": tables.word_embeddings(given),
        "position": tables.position_embeddings(torch.cat([torch.arange(n) for n in LENGTHS])),
        "segment": tables.token_type_embeddings(torch.zeros_like(given)),
    }
    found = torch.from_numpy(parts.part(part, batch(rows(folder))))
    assert torch.equal(found, lookups[part])


def test_the_order_of_tokens_matters(tiny_bert: Folder) -> None:
    model = encoder(tiny_bert())
    (forward,) = ours(model, [torch.tensor([5, 6, 7])], 3)
    (backward,) = ours(model, [torch.tensor([7, 6, 5])], 3)
    assert not torch.allclose(forward, backward.flip(0), atol=0.1)


def test_warming_changes_no_result(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    model, given = encoder(folder), rows(folder)
    before = ours(model, given, 3)
    model.warm()
    assert all(torch.equal(a, b) for a, b in zip(before, ours(model, given, 3), strict=True))


@pytest.mark.parametrize("build", [encoder, compiled], ids=["torch", "compiled"])
def test_an_encoder_that_nobody_holds_is_freed_at_once(
    build: Callable[[Path], Encoder], minilm_folder: Path
) -> None:
    made = build(minilm_folder)
    made.vectors(batch(rows(minilm_folder)), ["mean"])
    left = weakref.ref(made)
    gc.disable()
    try:
        del made
        assert left() is None
    finally:
        gc.enable()


class Passed(Exception):
    """Exception after a pass, whose result cannot be read."""


class Alone(EagerRunner):
    """Runner that refuses work of the host during a pass, after the copy of the layout."""

    def __call__(self, layout: SequenceLayout) -> Tensor:
        _ = layout.memory
        with OnDevice():  # type: ignore[no-untyped-call]
            super().__call__(layout)
        raise Passed


def test_a_batch_is_laid_out_before_its_pass(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    loaded, parts = embeddings(folder, META)
    layers = TorchLayers(parts.config, loaded, TorchLinearFactory(META, torch.bfloat16), META)
    with pytest.raises(Passed):
        TorchEncoder(parts, layers, Alone).vectors(batch(rows(folder)), ["mean"])


class Meeting(EagerRunner):
    """Runner whose pass ends when another pass has started."""

    def __init__(self, forward: Forward) -> None:
        super().__init__(forward)
        self.both = threading.Barrier(2)

    def __call__(self, layout: SequenceLayout) -> Tensor:
        self.both.wait(timeout=120)
        return super().__call__(layout)


def test_on_a_cpu_no_pass_waits_for_another(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    loaded, parts = embeddings(folder)
    layers = TorchLayers(parts.config, loaded, OneDnnLinearFactory(F32), CPU)
    model, given = TorchEncoder(parts, layers, Meeting), batch(rows(folder))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: model.vectors(given, ["mean"]), range(2)))
    expected = encoder(folder).vectors(given, ["mean"])
    assert all(np.array_equal(vectors, expected) for vectors in found)


class WithoutAngles(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that refuses to compute a cosine."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is not torch.ops.aten.cos.default
        return func(*args, **(kwargs or {}))


def test_rotations_are_computed_once_for_all_passes(tmp_path: Path) -> None:
    write(Case("qwen3", {"num_key_value_heads": 2, "head_dim": 16}), tmp_path)
    spec = families.read(tmp_path)
    loaded = weights.load(tmp_path, spec)
    layers = TorchLayers(spec.config, loaded, TorchLinearFactory(CPU, torch.float32), CPU)

    def run(lengths: list[int]) -> Tensor:
        layout = SequenceLayout(lengths, CPU)
        return layers(torch.ones(layout.rows, spec.config.hidden_size), layout, len(layers))

    run([3, 5])
    with WithoutAngles():  # type: ignore[no-untyped-call]
        assert run([7, 500]).isfinite().all()
    with WithoutAngles(), pytest.raises(AssertionError):  # type: ignore[no-untyped-call]
        run([513])
