"""Tests of the encoder against transformers, on weights so large that a wrong detail shows."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BertModel

from models import weights
from models.config import EncoderConfig
from models.encoder import Embeddings, Encoder
from models.families import BERT
from models.layers import TorchLayers
from models.linear import Layout, Plain, Prepacked
from models.packing import Packing
from models.precision import Precisions
from tests.conftest import Folder

CPU = torch.device("cpu")
F32 = torch.float32
LENGTHS = [3, 64, 1, 17, 16, 33]


def rows(vocabulary: int) -> list[Tensor]:
    noise = torch.Generator().manual_seed(3)
    return [torch.randint(vocabulary, (length,), generator=noise) for length in LENGTHS]


def encoder(folder: Path, layout: Layout | None = None) -> Encoder:
    config = EncoderConfig.read(folder)
    loaded = weights.load(folder, BERT, config.num_layers)
    embeddings = Embeddings(config, loaded, CPU)
    layers = TorchLayers(config, loaded, embeddings.positions, layout or Prepacked(F32), CPU)
    return Encoder(config, embeddings, layers)


def compiled(folder: Path) -> Encoder:
    """With the compiled layers, where there are any for the processor."""
    config = EncoderConfig.read(folder)
    loaded = weights.load(folder, BERT, config.num_layers)
    embeddings = Embeddings(config, loaded, CPU)
    precisions = Precisions(config, loaded, embeddings.positions, CPU)
    return Encoder(config, embeddings, precisions.layers("float32", lambda layers: None))


def packed(rows: Sequence[Tensor]) -> tuple[Tensor, Packing]:
    packing = Packing([len(row) for row in rows], CPU)
    ids = torch.zeros(packing.rows, dtype=torch.int64)
    ids[: packing.tokens] = torch.cat(list(rows))
    return ids, packing


@torch.inference_mode()
def ours(encoder: Encoder, rows: Sequence[Tensor], layer: int | None = None) -> list[Tensor]:
    ids, packing = packed(rows)
    states = encoder(ids, packing, layer)[: packing.tokens]
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
def test_every_layer_equals_transformers(
    tiny_bert: Folder,
    activation: str,
    sizes: dict[str, int],
    build: Callable[[Path], Encoder],
) -> None:
    folder = tiny_bert(hidden_act=activation, **sizes)
    model = build(folder)
    batch = rows(model.config.vocab_size)
    expected = theirs(folder, batch)
    for layer in range(model.config.num_layers + 1):
        for mine, states in zip(ours(model, batch, layer), expected, strict=True):
            assert_equal(mine, states[layer])


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
    folder = tiny_bert(**sizes)
    model = encoder(folder)
    batch = rows(model.config.vocab_size)
    for mine, states in zip(ours(model, batch), theirs(folder, batch), strict=True):
        assert_equal(mine, states[-1])


@pytest.mark.parametrize("build", [encoder, compiled])
def test_every_layer_of_the_default_model_equals_transformers(
    minilm_folder: Path, build: Callable[[Path], Encoder]
) -> None:
    model = build(minilm_folder)
    batch = rows(model.config.vocab_size)
    expected = theirs(minilm_folder, batch)
    for layer in range(model.config.num_layers + 1):
        for mine, states in zip(ours(model, batch, layer), expected, strict=True):
            assert_equal(mine, states[layer])


def test_all_layers_are_applied_by_default(tiny_bert: Folder) -> None:
    model = encoder(tiny_bert())
    batch = rows(model.config.vocab_size)
    pairs = zip(ours(model, batch), ours(model, batch, model.config.num_layers), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_both_layouts_compute_the_same(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    plain, prepacked = encoder(folder, Plain(CPU, F32)), encoder(folder, Prepacked(F32))
    batch = rows(plain.config.vocab_size)
    for a, b in zip(ours(plain, batch), ours(prepacked, batch), strict=True):
        assert_equal(a, b)


def test_the_input_is_rounded_once_however_low_the_precision(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    exact, rounded = encoder(folder), encoder(folder, Plain(CPU, torch.bfloat16))
    batch = rows(exact.config.vocab_size)
    for a, b in zip(ours(exact, batch, 0), ours(rounded, batch, 0), strict=True):
        assert torch.equal(a.bfloat16(), b)


@pytest.mark.parametrize("part", ["token", "position", "segment"])
def test_a_part_is_its_summand_of_the_input(tiny_bert: Folder, part: str) -> None:
    folder = tiny_bert()
    model = encoder(folder)
    batch = rows(model.config.vocab_size)
    ids, packing = packed(batch)
    summand = model.part(part, ids, packing)[: packing.tokens]
    tables = BertModel.from_pretrained(folder).embeddings
    lookups = {
        "token": tables.word_embeddings(torch.cat(batch)),
        "position": tables.position_embeddings(torch.cat([torch.arange(n) for n in LENGTHS])),
        "segment": tables.token_type_embeddings(torch.zeros(sum(LENGTHS), dtype=torch.int64)),
    }
    assert torch.equal(summand, lookups[part])


def test_the_order_of_tokens_matters(tiny_bert: Folder) -> None:
    model = encoder(tiny_bert())
    (forward,) = ours(model, [torch.tensor([5, 6, 7])])
    (backward,) = ours(model, [torch.tensor([7, 6, 5])])
    assert not torch.allclose(forward, backward.flip(0), atol=0.1)


def test_warming_changes_no_result(tiny_bert: Folder) -> None:
    model = encoder(tiny_bert())
    batch = rows(model.config.vocab_size)
    before = ours(model, batch)
    for size in (4, 48, 512):
        model.warm(size)
    assert all(torch.equal(a, b) for a, b in zip(before, ours(model, batch), strict=True))
