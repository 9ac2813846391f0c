"""Tests of Qwen2 and Qwen3 against transformers."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import BPE

from models import families
from models.embedder import Embedder
from tests.models.families.checkpoint import (
    Case,
    assert_equal_states,
    assert_refused,
    assert_same_bits,
    assert_same_weights,
    configure,
    reference,
    write,
)

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
@pytest.mark.full(after=3)
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
    assert today.config.windows == (None, 4, 4)
    configure(tmp_path, "rope_parameters", "layer_types", rope_theta=1e6)
    assert families.read(tmp_path) == today


@both
def test_a_window_that_is_not_used_is_none(model_type: str, tmp_path: Path) -> None:
    write(Case(model_type, SHARED), tmp_path)
    configure(tmp_path, "layer_types", sliding_window=131072, max_window_layers=1)
    assert families.read(tmp_path).config.windows == (None,) * 3


def test_a_head_is_as_wide_as_transformers_takes_it(tmp_path: Path) -> None:
    write(Case("qwen3", SHARED), tmp_path)
    configure(tmp_path, "head_dim")
    assert families.read(tmp_path).config.head_size == 128


@both
def test_a_checkpoint_with_a_head_has_the_same_weights(model_type: str, tmp_path: Path) -> None:
    write(Case(model_type, SHARED), tmp_path)
    assert_same_weights(tmp_path, lambda name: f"model.{name}", ("lm_head.weight",))


@both
@pytest.mark.parametrize(
    "options",
    [
        {"layer_types": ["chunked_attention"] * 3},
        {"layer_types": ["full_attention"] * 2},
        {"layer_types": TYPES},  # without a window
        {"architectures": ["Qwen2BiModel"]},
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    model_type: str, options: dict[str, object], tmp_path: Path
) -> None:
    assert_refused(Case(model_type, SHARED), options, tmp_path)


ENDING = "<|endoftext|>"
FILES = {
    "modules.json": [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ],
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
