"""Tests that the states of a text are the same bytes alone and in any batch, for any sizes.

The order in which a product is summed may depend on the memory layout of its operands, which
shows with wide heads.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig

from embedwell_models import families
from embedwell_models.cpu_backend.library import features
from embedwell_models.torch_backend.linear_adapters import row_exact_linear_factory
from tests.models.families.checkpoint import Case, encoder, states, write
from tests.models.families.every import EVERY

LENGTHS = (1, 2, 5, 7, 8, 9, 16, 17, 33, 40)
HIDDEN_SIZES = ("hidden_size", "dim", "d_model", "n_embd")
HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "num_global_key_value_heads")
HEAD_SIZES = ("head_dim", "global_head_dim", "d_kv", "d_head")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model: heads of queries, heads of keys and values, features of a head."""

    heads: int
    kv_heads: int
    head_size: int

    def __str__(self) -> str:
        return f"{self.heads}x{self.kv_heads}x{self.head_size}"

    def of(self, case: Case) -> Case:
        """A case of these sizes."""
        changed: dict[str, Any] = dict.fromkeys(HIDDEN_SIZES, self.heads * self.head_size)
        changed |= dict.fromkeys(HEADS, self.heads)
        changed |= dict.fromkeys(KV_HEADS, self.kv_heads)
        changed |= dict.fromkeys(HEAD_SIZES, self.head_size)
        pairs = self.head_size // 4  # half of the features: an even number of any of these sizes
        changed |= {"partial_rotary_factor": 0.5}
        changed |= {"short_factor": [1.5] * pairs, "long_factor": [3.0] * pairs}
        sizes = {**_usual(case.model_type), **case.sizes}
        return replace(
            case, sizes=_changed(sizes, changed), options=_changed(case.options, changed)
        )


def _usual(model_type: str) -> dict[str, Any]:
    # Options that a case need not state, but that must fit its sizes.
    usual = AutoConfig.for_model(model_type).to_dict()
    return {key: usual[key] for key in ("num_key_value_heads", "rope_parameters") if key in usual}


def _changed(options: Mapping[str, Any], changed: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        key: _changed(value, changed) if isinstance(value, dict) else changed.get(key, value)
        for key, value in options.items()
    }


WIDE = [Sizes(2, 2, 256), Sizes(2, 1, 256), Sizes(1, 1, 320)]
ODD = [Sizes(3, 3, 20), Sizes(2, 2, 36), Sizes(5, 1, 12)]
IN_TURN = [  # each family has a wide and an odd one of the sizes
    pytest.param(case, sizes[index % 3], id=f"{case}-{sizes[index % 3]}")
    for sizes in (WIDE, ODD)
    for index, case in enumerate(EVERY)
]


def batches(limit: int, seed: int, count: int = 2) -> list[tuple[int, ...]]:
    """Lengths of the texts of some batches, among them batches of equal lengths."""
    draw = random.Random(seed)
    mixed = [tuple(draw.choices(LENGTHS, k=draw.randint(2, 9))) for _ in range(count)]
    return [tuple(min(length, limit) for length in each) for each in [(7,) * 3, *mixed]]


def row_of(length: int, number: int, vocab_size: int) -> Tensor:
    """Return the random ids of a text: the first of its length, the second, and so on."""
    noise = torch.Generator().manual_seed(10 * length + number)
    return torch.randint(6, vocab_size, (length,), generator=noise)


def assert_same_bytes(folder: Path, seed: int) -> None:
    """Assert that states are the same alone and in batches, with torch's products and kernels'."""
    config = families.read(folder).config
    for linear in (None, row_exact_linear_factory(features("auto"))):
        ours = encoder(folder, linear)
        alone: dict[tuple[int, int], Tensor] = {}
        for lengths in batches(config.max_tokens, seed):
            texts = [(each, lengths[:index].count(each)) for index, each in enumerate(lengths)]
            rows = [row_of(*text, config.vocab_size) for text in texts]
            together = states(ours, rows, config.num_layers)
            for text, among in zip(texts, together, strict=True):
                if text not in alone:
                    row = row_of(*text, config.vocab_size)
                    [alone[text]] = states(ours, [row], config.num_layers)
                assert torch.equal(alone[text], among), f"{text} in a batch of {lengths}"


DEBERTA = {"relative_attention": True, "position_buckets": 4}
OWN_PRODUCTS = [  # scores of these models are not computed by torch's attention
    Case("gemma2", {"num_key_value_heads": 2, "head_dim": 24, "attn_logit_softcapping": 2.0}),
    *(Case("deberta-v2", {**DEBERTA, "pos_att_type": kinds}) for kinds in (["c2p"], ["p2c"])),
    Case(
        "xlnet", sizes={"vocab_size": 99, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 96}
    ),
]


@pytest.mark.parametrize("case", OWN_PRODUCTS, ids=str)
@pytest.mark.full(after=2)
def test_scores_of_a_text_do_not_depend_on_its_batch(case: Case, tmp_path: Path) -> None:
    write(WIDE[0].of(case), tmp_path)
    assert_same_bytes(tmp_path, seed=1)


@pytest.mark.parametrize(("case", "sizes"), IN_TURN)
@pytest.mark.full
def test_states_of_every_family_do_not_depend_on_the_batch(
    case: Case, sizes: Sizes, tmp_path: Path
) -> None:
    write(sizes.of(case), tmp_path)
    assert_same_bytes(tmp_path, seed=2)
