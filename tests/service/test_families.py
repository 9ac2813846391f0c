"""A server with a model of every family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models.vectors import normalize
from tests.models.families.checkpoint import Case
from tests.models.families.every import every_family, write_model
from tests.models.rare import nvembed_files
from tests.service.local_server import local_server

SCHEMES = {  # the first position scheme of each family; that of the others is rotary
    **dict.fromkeys(("albert", "bert", "camembert", "clip_text_model", "distilbert"), "learned"),
    **dict.fromkeys(("dpr", "electra", "ernie", "gpt2", "gpt_neo", "luke", "mpnet"), "learned"),
    **dict.fromkeys(("big_bird", "longformer", "roberta", "xlm-roberta", "xmod"), "learned"),
    **dict.fromkeys(("bloom", "mpt"), "alibi"),
    **dict.fromkeys(("mt5", "t5", "umt5"), "relative"),
    **dict.fromkeys(("deberta", "deberta-v2"), "disentangled"),
    "m2m_100": "sinusoidal",
    "xlnet": "transformer_xl",
}

BIASES: dict[
    str, Callable[[Any], torch.Tensor]
] = {  # added to the attention scores: (1, H, 301, 301)
    **dict.fromkeys(
        ("mt5", "t5"),
        lambda model: model.encoder.block[0].layer[0].SelfAttention.compute_bias(301, 301),
    ),
    "mpnet": lambda model: model.encoder.compute_position_bias(torch.zeros(1, 301, 1)),
}


@every_family
@pytest.mark.full(after=3)
def test_every_family_is_served(case: Case, tmp_path: Path) -> None:
    model: Any = write_model(case, tmp_path / "model")
    if case.model_type == "dpr":  # its output has no hidden states
        model = model.base_model.bert_model
    with local_server(tmp_path / "model") as server:
        client = server.client
        response = client.post("/tokens", json={"inputs": "the license"}).json()
        tokens = response["results"][0]["tokens"]
        (vector,) = client.post("/embed", json={"inputs": ["the license"]}).json()
        positions = client.post("/positions", json={"count": 4}).json()
        options = {"scheme": "mpnet" if case.model_type == "mpnet" else "relative"}
        relative = client.post("/positions", json={**options, "positions": [0, 1, 9, 300]}).json()
        position_part = client.post("/tokens", json={"inputs": "the", "layer": "position"})
    states = torch.tensor([token["embedding"] for token in tokens])
    with torch.inference_mode():
        ids = torch.tensor([[token["id"] for token in tokens]])
        expected = model(input_ids=ids).last_hidden_state[0]
    if case.model_type == "embedding_gemma2_text":  # states are those before the projection
        states = states @ model.embedding_projection.weight.detach().T
    scale = float(expected.abs().max())
    torch.testing.assert_close(states, expected, atol=1e-4 * scale, rtol=0)
    assert len(vector) == expected.shape[1]
    assert positions["scheme"] == SCHEMES.get(case.model_type, "rotary")
    biases = BIASES.get(case.model_type, lambda model: None)(model)
    assert ("bias" in relative) == (biases is not None)
    if biases is not None:
        expected = biases[0][:, [[0], [1], [9], [300]], [0, 1, 9, 300]].detach()
        np.testing.assert_array_equal(np.array(relative["bias"], dtype=np.float32), expected)
    has_position_part = SCHEMES.get(case.model_type) in ("learned", "sinusoidal")
    assert (
        position_part.status_code == 200
        if has_position_part
        else "layer is position, but the parts of the model" in position_part.text
    )


def test_nv_embed_is_served_with_its_prompt(tmp_path: Path) -> None:
    reference = nvembed_files.write(tmp_path)
    texts, instruction = nvembed_files.TEXTS[:2], nvembed_files.INSTRUCTION
    rows = nvembed_files.published_ids(tmp_path, texts, instruction)
    count = nvembed_files.published_instruction_length(tmp_path, instruction)
    chunks = {"inputs": ["the license", "of work"], "late_chunking": True}
    with local_server(tmp_path) as server:
        vectors = server.client.post("/embed", json={"inputs": texts, "prompt_name": "query"})
        late = server.client.post("/embed", json=chunks)
        positions = server.client.post("/positions", json={"count": 4}).json()
    expected = normalize(reference.vectors(rows, count).numpy())
    np.testing.assert_allclose(vectors.json(), expected, atol=1e-5)
    # The row of both chunks begins and ends with a special token, which belongs to neither.
    (states,) = reference.states(nvembed_files.published_ids(tmp_path, ["the license of work"]))[-1]
    means = torch.stack([states[1:3].mean(dim=0), states[3:5].mean(dim=0)])
    np.testing.assert_allclose(late.json(), normalize(means.numpy()), atol=1e-5)
    assert positions["scheme"] == "rotary"
