"""Tests of Qwen2 and Qwen3 against transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import BPE
from torch import Tensor

from embedwell_models import families
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    reference,
    windows,
    write,
)
from tests.models.families.files import edit, rename

SHARED = {"num_key_value_heads": 2}
WINDOW = {**SHARED, "use_sliding_window": True, "sliding_window": 5}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
CASES = [
    Case("qwen2", SHARED),
    Case("qwen2", {**SHARED, "is_causal": False}),
    Case("qwen2", {**WINDOW, "max_window_layers": 1}),
    Case("qwen2", {**WINDOW, "max_window_layers": 0, "is_causal": False}),
    Case("qwen2", {**WINDOW, "layer_types": TYPES}),
    Case("qwen3", {**SHARED, "head_dim": 24, "rms_norm_eps": 0.05}),
    Case("qwen3", {**SHARED, "head_dim": 16, "attention_bias": True}),
    Case("qwen3", {**WINDOW, "head_dim": 16, "max_window_layers": 2}),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
both = pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])


@cases
@pytest.mark.full(after=1)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=2)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@both
def test_older_configs_say_the_same(model_type: str, tmp_path: Path) -> None:
    angles = {"rope_parameters": {"rope_theta": 1e6}}
    write(Case(model_type, {**WINDOW, **angles, "max_window_layers": 1}), tmp_path)
    today = families.read(tmp_path)
    assert windows(tmp_path) == [None, 4, 4]
    edit(tmp_path, "rope_parameters", "layer_types", rope_theta=1e6)
    assert families.read(tmp_path) == today


@both
def test_a_window_that_is_not_used_is_none(model_type: str, tmp_path: Path) -> None:
    write(Case(model_type, SHARED), tmp_path)
    edit(tmp_path, "layer_types", sliding_window=131072, max_window_layers=1)
    assert windows(tmp_path) == [None] * 3


def test_a_head_is_as_wide_as_transformers_takes_it(tmp_path: Path) -> None:
    write(Case("qwen3", SHARED), tmp_path)
    edit(tmp_path, "head_dim")
    assert families.read(tmp_path).config.attention.head_size == 128


@both
def test_a_checkpoint_with_a_head_has_the_same_weights(model_type: str, tmp_path: Path) -> None:
    write(Case(model_type, SHARED), tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"model.{name}", ("lm_head.weight",))


@both
@pytest.mark.parametrize(
    "options",
    [
        {"layer_types": ["chunked_attention"] * 3},
        {"layer_types": ["full_attention"] * 2},
        {"layer_types": TYPES},  # without a window
        {"architectures": ["Qwen2OwnModel"]},
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    model_type: str, options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(Case(model_type, SHARED), options, tmp_path)


ENDING = "<|endoftext|>"
MODULES = {
    "": "sentence_transformers.models.Transformer",
    "1_Pooling": "sentence_transformers.models.Pooling",
    "2_Normalize": "sentence_transformers.models.Normalize",
}
FILES = {
    "modules.json": [{"path": path, "type": kind} for path, kind in MODULES.items()],
    "1_Pooling/config.json": {"pooling_mode_lasttoken": True, "include_prompt": True},
    "tokenizer_config.json": {"model_max_length": 48},
}


def write_tokenizer(folder: Path) -> None:
    """Save a tokenizer of bytes that ends every text as that of Qwen3-Embedding does."""
    alphabet = [ENDING, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    rust = Tokenizer(BPE({piece: i for i, piece in enumerate(alphabet)}, []))
    rust.add_special_tokens([ENDING])
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    template = processors.TemplateProcessing(single=f"$A {ENDING}", special_tokens=[(ENDING, 0)])
    rust.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    rust.save(str(folder / "tokenizer.json"))


def test_a_vector_is_the_state_of_the_end_of_the_text(tmp_path: Path) -> None:
    model = write(Case("qwen3", {**SHARED, "head_dim": 16, "vocab_size": 257}), tmp_path)
    write_tokenizer(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    batch = ["a text", "", "the second text of the batch " * 9]  # the last one is cut
    ids = [torch.tensor(row) for row in embedder.tokenize(batch)]
    assert [int(row[-1]) for row in ids] == [0, 0, 0]
    assert [len(row) for row in ids] == [7, 1, 48]
    ends = torch.stack([states[-1][0, -1] for states in reference(model, ids)])
    expected = torch.nn.functional.normalize(ends)
    vectors = torch.from_numpy(embedder.embed(batch))
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=0)


BIDIRECTIONAL = Case("qwen3", {**SHARED, "head_dim": 16, "vocab_size": 257, "is_causal": False})
MEAN = {"pooling_mode_mean_tokens": True, "word_embedding_dimension": 96}
PPLX = {
    "model_type": "bidirectional_pplx_qwen3",
    "architectures": ["PPLXQwen3Model"],
    "auto_map": {"AutoModel": "modeling.PPLXQwen3Model"},
    "use_bidirectional_attention": True,
}
VOYAGE = {
    "architectures": ["Qwen3BidirectionalModel"],
    "auto_map": {"AutoModel": "modeling_qwen3_bidirectional.Qwen3BidirectionalModel"},
    "use_bidirectional_attention": True,
    "num_labels": 96,
}
BATCH = ["a text", "the second text of the batch " * 3]


def write_bidirectional(
    folder: Path, modules: dict[str, str], pooling: dict[str, Any], config: dict[str, Any]
) -> Any:
    """Save a Qwen3 in which each token sees all others, as its own code would load it."""
    model = write(BIDIRECTIONAL, folder)
    edit(folder, "is_causal", **config)
    write_tokenizer(folder)
    entries = [{"path": path, "type": kind} for path, kind in modules.items()]
    (folder / "modules.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return model


def means(model: Any, ids: list[list[int]], matrix: Tensor) -> Tensor:
    """The mean of each text's states, each times a matrix."""
    rows = [torch.tensor(row) for row in ids]
    return torch.stack(
        [(states[-1][0] @ matrix).mean(0) for states in reference(model, rows)]
    ).detach()


def test_pplx_embed_gives_rounded_hyperbolic_tangents_of_the_mean(tmp_path: Path) -> None:
    quantizer = {"2_Quantizer": "st_quantize.FlexibleQuantizer"}
    modules = {key: kind for key, kind in MODULES.items() if "Normalize" not in kind} | quantizer
    model = write_bidirectional(tmp_path, modules, MEAN, PPLX)
    assert_equal_states(model, tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    mean = means(model, embedder.tokenize(BATCH), torch.eye(embedder.config.hidden_size))
    vectors = embedder.embed(BATCH)
    assert np.array_equal(vectors, vectors.round()) and 100 < np.abs(vectors).max() <= 127
    assert np.abs(vectors - 127 * np.tanh(mean.numpy())).max() <= 0.51


def test_voyage_gives_the_mean_of_the_products_of_each_token(tmp_path: Path) -> None:
    model = write_bidirectional(tmp_path, MODULES, MEAN, VOYAGE)
    noise = torch.Generator().manual_seed(3)
    matrix = torch.randn(96, model.config.hidden_size, generator=noise)
    rename(tmp_path, lambda name: f"model.{name}", {"linear.weight": matrix})
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    assert embedder.dim == 96
    expected = torch.nn.functional.normalize(means(model, embedder.tokenize(BATCH), matrix.T))
    vectors = torch.from_numpy(embedder.embed(BATCH))
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**PPLX, "use_bidirectional_attention": False}, "use_bidirectional_attention"),
        ({**VOYAGE, "use_bidirectional_attention": False}, "architectures"),
        ({**VOYAGE, "num_labels": 0}, "num_labels"),
    ],
)
def test_kin_of_another_kind_is_refused(
    config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_bidirectional(tmp_path, MODULES, MEAN, config)
    with pytest.raises(ModelError, match=message):
        families.read(tmp_path)


@pytest.mark.parametrize(
    ("pooling", "setting"), [({"pooling_mode_lasttoken": True}, "auto"), (MEAN, "cls")], ids=str
)
def test_voyage_has_no_other_pooling_than_the_mean(
    pooling: dict[str, Any], setting: str, tmp_path: Path
) -> None:
    write_bidirectional(tmp_path, MODULES, pooling, VOYAGE)
    with pytest.raises(ModelError, match="supports only the pooling mean"):
        ModelDescription.read(tmp_path, ModelOptions(pooling=setting))
