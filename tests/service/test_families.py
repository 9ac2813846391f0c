"""Tests of servers of models that differ in kind."""

from pathlib import Path

import httpx
import pytest
import torch

from tests.models.families.checkpoint import Case
from tests.models.families.every import EVERY, write_model
from tests.service.server import Server

OWN = {  # of each kind: the scheme of its positions, first of those of the input
    "bloom": "alibi",
    "clip_text_model": "learned",
    "deberta-v2": "disentangled",
    "gemma3_text": "rotary",
    "modernbert": "rotary",
    "mpnet": "learned",
    "t5": "relative",
    "xlnet": "transformer_xl",
}
CASES = [case for case in EVERY if case.model_type in OWN]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_family_is_served(case: Case, tmp_path: Path) -> None:
    model = write_model(case, tmp_path / "model")
    with (
        Server(tmp_path / "log", model=tmp_path / "model") as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        found = client.post("/tokens", json={"inputs": "the license"}).json()
        tokens = found["results"][0]["tokens"]
        (vector,) = client.post("/embed", json={"inputs": ["the license"]}).json()
        own = client.post("/positions", json={"count": 4}).json()
    states = torch.tensor([token["embedding"] for token in tokens])
    with torch.inference_mode():
        ids = torch.tensor([[token["id"] for token in tokens]])
        expected = model(input_ids=ids).last_hidden_state[0]
    scale = float(expected.abs().max())
    torch.testing.assert_close(states, expected, atol=1e-4 * scale, rtol=0)
    assert len(vector) == expected.shape[1]
    assert own["scheme"] == OWN[case.model_type]
