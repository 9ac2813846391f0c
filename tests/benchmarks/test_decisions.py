"""The benchmark of decisions, with a model of few layers."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.decisions import SIZES, TOKENS, report, write_model, write_texts
from benchmarks.machine import describe
from benchmarks.peers.decisions import INSTRUCTIONS, OPTIONS, read
from benchmarks.turns import Contest, Contestant, compare

SMALL = {
    **{"vocab_size": 160, "hidden_size": 64, "intermediate_size": 96},
    **{"num_hidden_layers": 2, "num_attention_heads": 1},
}


def test_a_question_with_its_text_has_the_stated_tokens(tmp_path: Path) -> None:
    import laya
    from laya.common import build_sequence

    agent = laya.load(str(write_model(tmp_path, SMALL)), device="cpu")
    question = {"t": "choice", "ins": INSTRUCTIONS, "crit": dict(OPTIONS)}
    for text in read(write_texts(tmp_path, seed=3)):
        ids, markers = build_sequence(agent.tok, text, question)
        assert len(ids) == TOKENS and len(markers) == len(OPTIONS)
        assert agent.tok.unk_token_id not in ids


@pytest.mark.full
def test_contestants_agree_in_turns_of_every_size(tmp_path: Path) -> None:
    chosen = [
        Contestant("laya", "on_transformers", "float32", None),
        Contestant("this", "ours", "float32", None),
        Contestant("unknown", "unknown", "float32", None),
    ]
    texts = write_texts(tmp_path, seed=0)
    contest = Contest("decisions", write_model(tmp_path, SMALL), texts, SIZES)
    args = Namespace(home=tmp_path, only=[], rounds=2, threads=1)
    entries = compare(chosen, contest, args)
    assert [entry.name for entry in entries] == ["laya", "this"]
    np.testing.assert_allclose(entries[1].outputs, entries[0].outputs, atol=2e-4)
    for entry in entries:
        assert {size: len(seconds) for size, seconds in entry.rounds.items()} == {8: 2, 1: 2}
        assert entry.start > 0 and 1 < entry.peak < 100_000


def test_the_report_has_rates_and_their_ratio_to_the_best_peer() -> None:
    def engine(seconds: float) -> dict[str, Any]:
        times = {"8": [2 * seconds, seconds, 3 * seconds], "1": [seconds] * 3}
        return {"seconds": times, "start": 1.0, "peak": 9.0, "max_difference": 1e-4}

    engines = {"laya a": engine(4.0), "laya b": engine(2.0), "this, int8": engine(0.5)}
    results = {"machine": describe(), "threads": 2, "rounds": 3, "engines": engines}
    *_, row = report(results).splitlines()
    assert row.split()[2:] == [
        *("8.00", "(5.33-16.00)", "4.00", "500", "(500-500)", "1.0", "9", "1.0e-04")
    ]
