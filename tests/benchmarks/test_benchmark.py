"""The benchmark's peers: how their batches are cut, models converted and programs found."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.environments import Unavailable
from benchmarks.peers.gguf_model import check, encoder_tensors, is_quantized, pieces
from benchmarks.peers.llama_server import arguments
from benchmarks.peers.protocol import Refused, batches, pad
from benchmarks.servers import peers, ratios
from benchmarks.serving import PEERS, Elsewhere, text_embeddings_inference

BERT = {"model_type": "bert", "hidden_act": "gelu"}
MEAN = {"pooling_mode_mean_tokens": True}
WORDPIECE: dict[str, Any] = {"model": {"type": "WordPiece"}, "normalizer": {"lowercase": True}}


@pytest.mark.parametrize(
    ("padded", "expected"), [(False, [[1, 0, 2], [3]]), (True, [[1, 0], [2], [3]])]
)
def test_batches_hold_as_many_tokens_as_the_budget(
    *, padded: bool, expected: list[list[int]]
) -> None:
    assert batches([6, 1, 6, 9], 13, padded=padded) == expected


def test_a_row_longer_than_the_budget_is_a_batch() -> None:
    assert batches([2, 30, 2], 8, padded=False) == [[0, 2], [1]]


def test_rows_are_padded_to_the_longest() -> None:
    ids, mask = pad([np.array([5, 6, 7], np.int32), np.array([8], np.int32)])
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_pieces_mark_the_starts_of_words_in_the_order_of_ids() -> None:
    vocabulary = {"##ing": 2, "[CLS]": 0, "embed": 1, "##": 3}
    assert pieces(vocabulary, ["[CLS]"]) == ["[CLS]", "▁embed", "ing", ""]


def test_the_encoder_has_neither_pooler_nor_prefix() -> None:
    tensor = np.zeros((2, 2), np.float32)
    names = ["bert.encoder.layer.0.output.dense.weight", "pooler.dense.weight", "cls.predictions.x"]
    tensors = encoder_tensors(dict.fromkeys(names, tensor))
    assert list(tensors) == ["encoder.layer.0.output.dense.weight"]


@pytest.mark.parametrize(
    ("name", "shape", "precision", "expected"),
    [
        ("blk.0.attn_q.weight", (32, 32), "q8_0", True),
        ("token_embd.weight", (32, 32), "q8_0", True),
        ("position_embd.weight", (32, 32), "q8_0", False),
        ("blk.0.attn_q.bias", (32,), "q8_0", False),
        ("blk.0.attn_q.weight", (32, 32), "float32", False),
    ],
)
def test_matrices_are_quantized(
    name: str, shape: tuple[int, ...], precision: str, *, expected: bool
) -> None:
    assert is_quantized(name, np.zeros(shape, np.float32), precision) == expected


@pytest.mark.parametrize(
    ("config", "pooling", "tokenizer", "named"),
    [
        (BERT | {"model_type": "modernbert"}, MEAN, WORDPIECE, "model_type"),
        (BERT | {"hidden_act": "gelu_new"}, MEAN, WORDPIECE, "hidden_act"),
        (BERT, {"pooling_mode_cls_token": True}, WORDPIECE, "pooling"),
        (BERT, MEAN, WORDPIECE | {"model": {"type": "Unigram"}}, "tokenizer"),
        (BERT, MEAN, WORDPIECE | {"normalizer": None}, "normalizer"),
    ],
)
def test_a_model_that_is_not_converted_is_refused(
    config: dict[str, Any], pooling: dict[str, Any], tokenizer: dict[str, Any], named: str
) -> None:
    check(BERT, MEAN, WORDPIECE)
    with pytest.raises(Refused, match=f"does not know this {named}$"):
        check(config, pooling, tokenizer)


def test_llama_cpp_gets_a_slot_for_each_text_at_a_time() -> None:
    options = [*arguments("m.gguf", "1234", "m", "2")]
    slots, tokens = (int(options[options.index(name) + 1]) for name in ("--parallel", "--ctx-size"))
    assert tokens == 512 * slots


def test_text_embeddings_inference_is_a_peer_where_its_program_is_given() -> None:
    elsewhere = Elsewhere.parse("other=http://localhost:1/v1/embeddings")
    without = Namespace(tei=None, at=[elsewhere])
    assert peers(without) == [*PEERS, elsewhere]
    names = [one.name for one in peers(Namespace(tei=Path("router"), at=[]))]
    assert names == [*(one.name for one in PEERS), "text-embeddings-inference"]


def test_a_program_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    server = text_embeddings_inference(tmp_path / "text-embeddings-router")
    with pytest.raises(Unavailable, match="is not a program"), server.run(tmp_path, tmp_path, 1):
        pass


def test_a_round_without_responses_of_the_peer_has_no_ratio() -> None:
    servers = {
        name: {"short": [{"requests_per_second": rate} for rate in rates]}
        for name, rates in {"peer": [0.0, 4.0], "this": [3.0, 6.0]}.items()
    }
    assert ratios({"peers": ["peer"], "servers": servers}, "this", "short") == [1.5]
