"""Tests of Funnel Transformer against transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    FunnelBaseModel,
    FunnelForMaskedLM,
    FunnelForPreTraining,
    FunnelForSequenceClassification,
    FunnelModel,
    FunnelTokenizer,
    PreTrainedModel,
)

from embedwell_models import families
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from tests.models.classic.cases import FUNNEL
from tests.models.classic.cases import FUNNEL_BLOCKS as BLOCKS
from tests.models.classic.cases import FUNNEL_SIZES as SMALL
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    custom_layers_encoder,
    exact_means,
    exact_states,
    reference,
    states,
    texts,
    write,
)
from tests.models.families.exact import expected, expected_list
from tests.models.families.files import assert_refused, assert_same_weights, edit, loaded, rename
from tests.models.tiny import VOCABULARY, write_tokenizer

pytestmark = pytest.mark.full  # a family that few use, with large tests
CASES = [
    FUNNEL,
    Case(
        "funnel",
        {**BLOCKS, "block_repeats": [2, 1, 2], "hidden_act": "relu"},
        SMALL,
        model=FunnelModel,
    ),
    Case(
        "funnel", {"block_sizes": [1, 2, 1, 1], "num_decoder_layers": 6}, SMALL, model=FunnelModel
    ),
    Case(
        "funnel",
        {"block_sizes": [2], "layer_norm_eps": 0.05, "d_head": 24},
        SMALL,
        model=FunnelModel,
    ),
    Case("funnel", BLOCKS, SMALL, model=FunnelForPreTraining),
    Case("funnel", BLOCKS, SMALL, model=FunnelForMaskedLM),
    Case("funnel", BLOCKS, SMALL, model=FunnelForSequenceClassification),
    Case("funnel", BLOCKS, SMALL, model=FunnelBaseModel),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: str(CASES.index(case)))
LENGTHS = (9, 17, 16, 40, 33, 10, 11, 12)
TEXTS = ["the license of this", "a copyright of this work, such as it is", "you " * 30]


def strides(case: Case) -> list[int]:
    """Return the number of tokens of each position of a state in the encoder."""
    sizes = case.options["block_sizes"]
    repeats = case.options.get("block_repeats", [1] * len(sizes))
    blocks = enumerate(zip(sizes, repeats, strict=True))
    return [1, *(2**block for block, (size, count) in blocks for _ in range(size * count))]


def upsampled(state: Tensor, stride: int, tokens: int) -> Tensor:
    """A state (N, D) for each token: the first position's, then each as often, then zeros."""
    repeated = torch.cat([state[:1], state[1:].repeat_interleave(stride, 0)])
    return F.pad(repeated, (0, 0, 0, stride - 1))[:tokens]


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    model, rows = write(case, tmp_path), texts(99, LENGTHS)
    ours, stride_of = custom_layers_encoder(tmp_path), dict(enumerate(strides(case)))

    def by_layer(either: Any) -> list[Tensor]:
        return [
            torch.cat(
                [
                    upsampled(state[0], stride_of.get(layer, 1), len(row))
                    for row, state in zip(rows, found, strict=True)
                ]
            )
            for layer, found in enumerate(zip(*reference(either, rows), strict=True))
        ]

    theirs = expected_list(model, by_layer)
    assert ours.config.num_layers == len(theirs) - 1
    for layer, exact in enumerate(theirs):
        assert_close(torch.cat(states(ours, rows, layer)), exact)


@cases
@pytest.mark.full(after=2)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    ours, rows = custom_layers_encoder(tmp_path), texts(99, (1, 2, 3, 4, *LENGTHS))
    last = ours.config.num_layers
    alone = [states(ours, [row], last)[0] for row in rows]  # shorter texts before longer ones
    for mine, among in zip(alone, states(custom_layers_encoder(tmp_path), rows, last), strict=True):
        assert torch.equal(mine, among)


@torch.inference_mode()
def padded(model: Any, row: Tensor, length: int) -> Tensor:
    """The last states of a text with padding at its end, in transformers."""
    ids = F.pad(row, (0, length - len(row)))[None]
    mask = torch.arange(length)[None] < len(row)
    result: Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state[0]
    return result


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_text_too_short_for_transformers_is_padded_to_the_shortest_it_computes(
    length: int, tmp_path: Path
) -> None:
    model: Any = write(CASES[0], tmp_path)
    (row,) = texts(99, (length,))
    with pytest.raises(RuntimeError):
        model(input_ids=row[None])
    (mine,) = states(custom_layers_encoder(tmp_path), [row], 8)
    assert_close(mine, expected(model, lambda either: padded(either, row, 5)[:length]))


def test_tokens_that_are_not_attended_to_have_no_weight(tmp_path: Path) -> None:
    model: Any = write(CASES[0], tmp_path)
    rows = texts(99, (3, 17, 8))
    longer = [torch.cat([row, torch.full((4,), 5)]).numpy() for row in rows]
    batch = Batch.of(longer).without_attention_to_trailing(5)
    ours = custom_layers_encoder(tmp_path).states(batch, 8)
    for row, mine in zip(rows, batch.split(ours), strict=True):
        ids = torch.cat([row, torch.full((4,), 5)])[None]
        mask = torch.arange(ids.shape[1])[None] < len(row)
        theirs = exact_states(model, ids[0], attention_mask=mask)
        assert_close(torch.from_numpy(mine), theirs)


def through_the_facade(case: Case, folder: Path) -> tuple[PreTrainedModel, Embedder]:
    model = write(Case("funnel", case.options, SIZES, model=case.model), folder)
    write_tokenizer(folder)
    return model, Embedder.load(folder, device="cpu")


SIZES = {**SMALL, "vocab_size": len(VOCABULARY)}


@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=["decoder", "base"])
def test_a_text_has_the_mean_of_its_states_through_the_facade(case: Case, tmp_path: Path) -> None:
    model, embedder = through_the_facade(case, tmp_path)
    rows = [torch.tensor(row) for row in embedder.tokenize(TEXTS)]
    expected = exact_means(model, rows)
    vectors = embedder.embed(TEXTS)
    assert_close(torch.from_numpy(vectors), expected)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)
    (part,) = embedder.hidden([rows[0].tolist()], "token")
    assert np.array_equal(part, model.get_input_embeddings()(rows[0]).detach().numpy())


def test_a_prompt_counts_as_the_positions_that_begin_in_it(tmp_path: Path) -> None:
    write(CASES[-1], tmp_path)
    ours, (row,) = custom_layers_encoder(tmp_path), texts(99, (21,))
    last = ours.pooled_states(Batch.of([row.numpy()])).states
    assert len(last) == 6  # of the tokens 0, 1 to 4, …, 17 to 19
    for prompt, first in ((1, 1), (2, 1), (4, 1), (5, 2), (17, 5)):
        batch = Batch.of([row.numpy()], [prompt])
        (vector,) = ours.vectors(batch, ["mean"])
        assert_close(torch.from_numpy(vector), last[first:].mean(dim=0))


@pytest.mark.parametrize("lower", [True, False])
def test_the_tokenizer_is_that_of_transformers(lower: bool, tmp_path: Path) -> None:
    write(Case("funnel", BLOCKS, SIZES, model=FunnelModel), tmp_path)
    write_tokenizer(tmp_path)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    options = {"tokenizer_class": "FunnelTokenizer", "do_lower_case": lower, **names}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
    theirs = FunnelTokenizer.from_pretrained(tmp_path)
    text = "The License of THIS work"
    (ids,) = Embedder.load(tmp_path, device="cpu").tokenize([text])
    assert list(ids) == theirs(text)["input_ids"]


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    before = loaded(tmp_path)
    rename(tmp_path, {"^": "funnel."})
    assert_same_weights(loaded(tmp_path), before)


def test_what_a_config_leaves_out_is_what_transformers_takes(tmp_path: Path) -> None:
    usual: dict[str, Any] = {"hidden_act": "gelu_new", "block_sizes": [4, 4, 4], "d_head": 64}
    usual |= {"num_decoder_layers": 2, "layer_norm_eps": 1e-9, "vocab_size": 30522}
    usual |= {"d_model": 768, "n_head": 12, "d_inner": 3072, "pooling_type": "mean"}
    small = {"d_model": 8, "n_head": 2, "d_head": 4, "d_inner": 8}
    write(Case("funnel", {}, {**small, "vocab_size": 9}, model=FunnelModel), tmp_path)
    edit(tmp_path, **usual)
    today = families.read(tmp_path)
    edit(tmp_path, *usual, "block_repeats", "separate_cls", "truncate_seq", "pool_q_only")
    assert families.read(tmp_path) == today
    assert today.config.max_tokens == 512


def test_other_options_are_refused_by_name(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    others: dict[str, Any] = {"pooling_type": "max", "attention_type": "factorized"}
    others |= {"separate_cls": False, "truncate_seq": False, "pool_q_only": False}
    assert_refused(tmp_path, **others, hidden_act="mish")
    for sizes, repeats in (([1, 1, 1], [1, 1]), ([1, 0, 1], [1, 1, 1]), ([], [])):
        edit(tmp_path, block_sizes=sizes, block_repeats=repeats)
        with pytest.raises(ModelError, match="block_sizes, block_repeats"):
            families.read(tmp_path)
    edit(tmp_path, block_sizes=[1] * 10, block_repeats=[1] * 10)
    with pytest.raises(ModelError, match="too many blocks"):
        families.read(tmp_path)
