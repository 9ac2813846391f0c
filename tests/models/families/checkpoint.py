"""Checkpoints of random weights, so large that a wrong detail shows, and what is true of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedModel

from embedwell_classic.encoders.custom_layers import CustomLayersEncoder
from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import LinearFactory, OneDnnLinearFactory
from tests.models.families.exact import (
    Expected,
    assert_near,
    each_exactly,
    expected,
    expected_list,
    one_thread,
)
from tests.models.families.files import assert_same_weights, edit, loaded, rename
from tests.models.random_weights import without_weights

CPU = torch.device("cpu")
LENGTHS = (3, 40, 1, 17, 16, 33)
SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
"""Special tokens of a small ModernBERT."""

SIZES = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}


@dataclass(frozen=True)
class Case:
    """A model of transformers. sizes: its keys of sizes, if they differ. model: its class.

    std: of its weights.
    """

    model_type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=lambda: SIZES)
    std: float = 0.3
    model: Any = AutoModel

    def __str__(self) -> str:
        return "-".join([self.model_type, *(f"{k}={v}" for k, v in self.options.items())])[:80]


def write(case: Case, folder: Path) -> PreTrainedModel:
    """Save a model in which every trained parameter is random."""
    config = AutoConfig.for_model(case.model_type, **{**case.sizes, **case.options})
    config._attn_implementation = "eager"
    build = AutoModel.from_config if case.model is AutoModel else case.model
    model: PreTrainedModel = without_weights(lambda: build(config))
    model.train(False)
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.normal_(_centre(name), case.std, generator=noise)
    model.save_pretrained(folder)
    return model


def assert_same_when_renamed(
    folder: Path, label: Callable[[str], str], added: tuple[str, ...] = ()
) -> None:
    """Assert that a checkpoint with other names and unneeded tensors loads the same weights."""
    before = loaded(folder)
    rename(folder, label, {name: torch.zeros(1) for name in added})
    assert_same_weights(loaded(folder), before)


def assert_case_refused(
    case: Case, options: Mapping[str, Any], folder: Path, named: str = ""
) -> None:
    """Assert that a config.json with these options is refused, by the first name or `named`."""
    write(case, folder)
    edit(folder, **options)
    with pytest.raises(ModelError, match=named or next(iter(options))):
        families.read(folder)


def _centre(name: str) -> float:
    norm = any(part in name.lower() for part in ("norm", "ln_"))
    return 1.0 if norm and name.endswith("weight") else 0.0


def encoder(
    folder: Path,
    linear_factory: LinearFactory | None = None,
    spec: ModelSpec | None = None,
) -> TorchEncoder:
    """Load our encoder on torch. spec: by default that of the folder."""
    spec = spec or families.read(folder)
    tensors = weights.load(folder, spec)
    layers = TorchLayers(
        spec.config, tensors, linear_factory or OneDnnLinearFactory(torch.float32), CPU
    )
    return TorchEncoder(InputEmbeddings(spec.config, tensors, CPU), layers)


def custom_layers_encoder(folder: Path) -> CustomLayersEncoder:
    """Load our encoder of a family that is not a plain transformer."""
    read = ModelDescription.read(folder, ModelOptions(pooling="mean"))
    load = families.named(read.spec.config.family).import_encoder_loader()
    assert load is not None
    encoder = load(read, "cpu", frozenset())
    assert isinstance(encoder, CustomLayersEncoder)
    return encoder


def attentions(folder: Path) -> list[AttentionSpec]:
    """Read the attention of each layer that has one."""
    mixers = [layer.mixer for layer in families.read(folder).config.layers]
    return [mixer for mixer in mixers if isinstance(mixer, AttentionSpec)]


def windows(folder: Path) -> list[int | None]:
    """Read the window of each layer's attention."""
    return [attention.window for attention in attentions(folder)]


def texts(vocab_size: int, lengths: tuple[int, ...] = LENGTHS) -> list[Tensor]:
    """Random ids of several lengths, without the first ids, which may be padding."""
    noise = torch.Generator().manual_seed(3)
    return [torch.randint(6, vocab_size, (length,), generator=noise) for length in lengths]


def states(encoder: Encoder, rows: list[Tensor], layer: int) -> list[Tensor]:
    """Compute the hidden states of each text after `layer` layers, all texts in one batch."""
    found = encoder.states(Batch.of([row.numpy() for row in rows]), layer)
    return list(torch.split(torch.from_numpy(found), [len(row) for row in rows]))


@torch.inference_mode()
def reference(model: Any, rows: list[Tensor]) -> list[tuple[Tensor, ...]]:
    """Compute transformers' hidden states of all layers, each text alone."""
    body = getattr(model, "base_model", model)  # without the head of a task
    found = [body(input_ids=row[None], output_hidden_states=True) for row in rows]
    return [(*each.hidden_states[:-1], each.last_hidden_state) for each in found]


def exact_states(model: Any, row: Tensor, **options: Any) -> Expected:
    """Compute the last states of a text by a model of transformers, exactly: (T, D)."""
    return expected(
        model, lambda either: either(input_ids=row[None], **options).last_hidden_state[0]
    )


def exact_means(model: Any, rows: list[Tensor]) -> Expected:
    """Compute the mean of the last states of each text by transformers, exactly: (B, D)."""
    return expected(
        model,
        lambda either: torch.stack([each[-1][0].mean(dim=0) for each in reference(either, rows)]),
    )


def assert_close(mine: Tensor, theirs: Tensor | Expected) -> None:
    """Assert that a tensor is as close to a reference as the roundings of float32 allow.

    If another computation in float32 is given, they are equal to 1e-4 of the largest value.
    """
    if isinstance(theirs, Expected):
        assert_near(mine, theirs)
    else:
        atol = 1e-4 * float(theirs.abs().max())
        torch.testing.assert_close(mine.to(theirs.dtype), theirs, atol=atol, rtol=0)


def assert_equal_states(
    model: Any, folder: Path, lengths: tuple[int, ...] = LENGTHS, ours: Encoder | None = None
) -> None:
    """Assert that the states of every layer equal those of transformers in float64.

    ours: by default our encoder on torch.
    """
    config, ours = families.read(folder).config, ours or encoder(folder)
    rows = texts(config.vocab_size, lengths)
    layers = range(config.num_layers + 1)

    def by_layer(either: Any) -> list[Tensor]:
        found = reference(either, rows)
        return [torch.cat([each[layer][0] for each in found]) for layer in layers]

    with one_thread():
        for layer, theirs in zip(layers, expected_list(model, by_layer), strict=True):
            assert_close(torch.cat(states(ours, rows, layer)), theirs)


@each_exactly
def published_states(
    published: Callable[[Tensor], list[Tensor]], rows: list[Tensor]
) -> list[Tensor]:
    """Compute the states after each layer by a reference, of all texts: (T, D) each.

    published: computes those of one text.
    """
    return [torch.cat(layer) for layer in zip(*map(published, rows), strict=True)]


def assert_published_states(
    published: Callable[[Tensor], list[Tensor]], ours: Encoder, rows: list[Tensor]
) -> None:
    """Assert that the states of every layer equal those of a reference in float64."""
    for layer, theirs in enumerate(published_states(published, rows)):
        assert_close(torch.cat(states(ours, rows, layer)), theirs)


def assert_same_bits(folder: Path, lengths: tuple[int, ...] = LENGTHS) -> None:
    """Assert that a text's states are bit-identical alone and in a batch."""
    config, ours = families.read(folder).config, encoder(folder)
    rows = texts(config.vocab_size, lengths)
    together = states(ours, rows, config.num_layers)
    for row, among in zip(rows, together, strict=True):
        assert torch.equal(states(ours, [row], config.num_layers)[0], among)
