"""The laws of the position schemes, and their hooks against the papers."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from embedwell_models.embedder import Embedder
from embedwell_models.positions import schemes, tables
from embedwell_models.torch_backend.position_hooks import (
    Alibi,
    Buckets,
    Disentangled,
    PaddedPositionTable,
    PositionHooks,
    PositionTable,
    TransformerXL,
)
from embedwell_models.torch_backend.rotary import Rotary
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

CPU = torch.device("cpu")
ALL = slice(None)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def scored(
    scheme: PositionHooks, query: Tensor, key: Tensor, queries: slice, keys: slice
) -> Tensor:
    """Return the scores that a scheme adds for queries and keys (H, T, Dh) of one text."""
    places = torch.arange(query.shape[1])
    index = places[keys] - places[queries, None] + len(places) - 1
    relative: Any = scheme.relative_features(len(places))
    found = scheme.relative_score(query[None, :, queries], key[None, :, keys], relative, index)
    assert found is not None
    return found[0]


def test_a_scheme_without_hooks_changes_nothing() -> None:
    hidden, query, key = random(5, 8), random(5, 2, 4), random(5, 1, 4)
    scheme = PositionHooks()
    assert scheme.embed(hidden, torch.zeros(5), torch.arange(5)) is hidden
    assert scheme.rotate(query, SequenceLayout([5], CPU)) is query
    assert scheme.bias(5) is None
    assert scheme.relative_features(5) is None
    assert scheme.relative_score(query, key, torch.empty(0), torch.zeros(5, 5)) is None
    assert scheme.adds_no_scores


def test_a_table_adds_the_row_of_each_position_and_leaves_attention_alone() -> None:
    table, hidden, positions = random(10, 8), random(4, 8), torch.tensor([0, 1, 9, 0])
    scheme = PositionTable(table)
    found = scheme.embed(hidden, torch.zeros(4), positions)
    torch.testing.assert_close(found - hidden, table[positions])
    assert scheme.adds_no_scores


def test_padding_has_the_first_row_and_those_after_it_do_not_count_it() -> None:
    ids = torch.tensor([7, 7, 8, 9, 7, 6, 7])
    positions = torch.tensor([0, 0, 1, 2, 3, 4, 0])  # of three texts
    table, hidden = random(5, 8), random(7, 8)
    found = PaddedPositionTable(table, 7).embed(hidden, ids, positions) - hidden
    torch.testing.assert_close(found, table[torch.tensor([0, 0, 1, 2, 0, 3, 0])])


@pytest.mark.parametrize(("part", "name"), [("token", "word"), ("position", "position")])
def test_a_one_hot_row_times_a_table_is_a_lookup(
    embedder: Embedder, minilm_folder: Path, part: str, name: str
) -> None:
    ids = np.array([101, 2314, 2924, 2314, 102])
    with safe_open(minilm_folder / "model.safetensors", framework="np") as checkpoint:
        table = checkpoint.get_tensor(f"embeddings.{name}_embeddings.weight")
    rows = ids if part == "token" else np.arange(5)
    one_hot = (rows[:, None] == np.arange(len(table))).astype(np.float32)
    np.testing.assert_array_equal(one_hot @ table, embedder.hidden([ids], part)[0])


def test_a_position_beyond_the_table_is_refused_by_the_length_that_fits(embedder: Embedder) -> None:
    embedder.hidden([[7] * 512], "position")
    with pytest.raises(ValueError, match="1 to 512 tokens"):
        embedder.hidden([[7] * 513], "position")


def test_a_word_has_one_token_vector_and_another_state_in_every_context(embedder: Embedder) -> None:
    ids = embedder.tokenize(["river bank", "money bank"])
    bank = [row.index(embedder.tokenize(["bank"])[0][1]) for row in ids]
    tokens, states = embedder.hidden(ids, "token"), embedder.hidden(ids)
    river, money = (rows[i] for rows, i in zip(states, bank, strict=True))
    np.testing.assert_array_equal(*(rows[i] for rows, i in zip(tokens, bank, strict=True)))
    cosine = river @ money / np.linalg.norm(river) / np.linalg.norm(money)
    assert cosine < 0.9


def test_alibi_adds_less_the_further_away_and_equally_to_both_sides() -> None:
    bias = Alibi(schemes.Alibi(), torch.from_numpy(tables.alibi_slopes(4))).bias(5)
    expected = [[-abs(d) / 4 ** (head + 1) for d in range(-4, 5)] for head in range(4)]
    torch.testing.assert_close(bias, torch.tensor(expected))


def test_buckets_add_the_trained_number_of_the_head_and_bucket() -> None:
    table = random(8, 3)
    bias = Buckets(schemes.Buckets(buckets=8, max_distance=20), table).bias(30)
    for head, distance in product(range(3), range(-29, 30)):
        bucket = tables.t5_buckets(np.array(distance), 8, 20)
        assert bias[head, distance + 29] == table[int(bucket), head]


def test_transformer_xl_scores_are_the_four_terms_of_the_paper() -> None:
    """Dai et al. 2019 (arXiv 1901.02860), section 3.3: (a) + (b) + (c) + (d)."""
    length, heads, size, width = 6, 2, 4, 8
    states = random(length, width)
    to_query, to_key, of_position = (random(heads, size, width) + i / 9 for i in range(3))
    u, v = random(heads, size), random(heads, size) - 0.5

    def sinusoid(distance: int) -> Tensor:
        angles = [distance / 10_000 ** (2 * i / width) for i in range(width // 2)]
        return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)])

    query = torch.einsum("qd,hsd->hqs", states, to_query) + u[:, None]  # as a query's bias
    key = torch.einsum("kd,hsd->hks", states, to_key)
    scheme = TransformerXL(schemes.TransformerXL(), of_position, v - u)
    added = scored(scheme, query, key, ALL, ALL)
    found = query @ key.mT + added
    for head, i, j in product(range(heads), range(length), range(length)):
        asks, holds = to_query[head] @ states[i], to_key[head] @ states[j]
        place = of_position[head] @ sinusoid(i - j)
        a, b, c, d = asks @ holds, asks @ place, u[head] @ holds, v[head] @ place
        torch.testing.assert_close(found[head, i, j], a + b + c + d, atol=1e-4, rtol=1e-4)
    block = scored(scheme, query, key, slice(2, 4), slice(1, None))
    torch.testing.assert_close(block, added[:, 2:4, 1:])


@pytest.mark.parametrize(("c2p", "p2c"), [(True, True), (True, False), (False, True)])
def test_disentangled_scores_are_those_of_deberta(c2p: bool, p2c: bool) -> None:
    """He et al. 2020 (arXiv 2006.03654), equations 2 to 4, with one difference.

    A key meets the vector of delta(i, j), as in the authors' code; the paper writes delta(j, i).
    """
    length, heads, size, span = 7, 2, 4, 3
    query, key = random(heads, length, size), random(heads, length, size) + 0.1
    place_query, place_key = random(2 * span, heads, size), random(2 * span, heads, size) - 0.1
    scheme = schemes.Disentangled(
        buckets=0, max_distance=span, content_to_position=c2p, position_to_content=p2c
    )
    hook = Disentangled(scheme, place_query, place_key)
    found = scored(hook, query, key, ALL, ALL)

    def delta(i: int, j: int) -> int:
        return 0 if i - j <= -span else 2 * span - 1 if i - j >= span else i - j + span

    for head, i, j in product(range(heads), range(length), range(length)):
        to_position = query[head, i] @ place_key[delta(i, j), head]
        to_content = key[head, j] @ place_query[delta(i, j), head]
        expected = c2p * to_position + p2c * to_content
        torch.testing.assert_close(found[head, i, j], expected, atol=1e-5, rtol=1e-5)
    block = scored(hook, query, key, slice(2, 4), slice(1, None))
    torch.testing.assert_close(block, found[:, 2:4, 1:])


def test_what_is_scored_is_known_beforehand() -> None:
    slopes: Any = torch.ones(2)
    assert not Alibi(schemes.Alibi(), slopes).adds_no_scores
    assert not TransformerXL(schemes.TransformerXL(), random(2, 4, 8), random(2, 4)).adds_no_scores
    assert Rotary(schemes.Rotary(dim=4)).adds_no_scores
