"""Tests of Qwen3-VL-Reranker for texts, against its authors' format and sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder

from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.decoder_reranker import token_id, write_layout
from tests.models.families.exact import assert_near, exactly
from tests.models.qwen3_vl import PAIRS as TEMPLATE
from tests.models.qwen3_vl import tokenized, write_processor, write_qwen3_vl

PAIRS = [
    ("What is rust?", "A fungus of plants."),
    ("x", "you may copy the work " * 60),
    ("  a query with spaces \n", "\n a document of the license. \n"),
    ("", "and"),
    ("the the", ""),
]
LONG, MAX_LENGTH = 1, 256
END = "<|im_end|>\n<|im_start|>assistant\n"


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


@exactly
def differences(model: Any, folder: Path, rows: list[list[int]]) -> Any:
    """The logit of yes less that of no after each row."""
    logits = torch.stack([model(input_ids=torch.tensor([row])).logits[0, -1] for row in rows])
    return logits[:, token_id(folder, "yes")] - logits[:, token_id(folder, "no")]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("instruction", [None, "Find the opposite."])
def test_qwen3_vl_reranker_is_read_as_published(
    tied: bool, instruction: str | None, tmp_path: Path
) -> None:
    model = write_qwen3_vl(tmp_path, max_length=MAX_LENGTH, ends=False, tied=tied)
    assert ("lm_head.weight" in load_file(tmp_path / "model.safetensors")) is not tied
    task = (
        instruction or "Given a search query, retrieve relevant candidates that answer the query."
    )
    rows = []
    for query, document in PAIRS:
        text = (
            "<|im_start|>system\nJudge whether the Document meets the requirements based on the "
            'Query and the Instruct provided. Note that the answer can only be "yes" or "no".'
            f"<|im_end|>\n<|im_start|>user\n<Instruct>: {task}<Query>:{query}\n"
            f"<Document>:{document}"
        )
        end = tokenized(tmp_path, END)
        rows.append([*tokenized(tmp_path, text)[: MAX_LENGTH - len(end)], *end])
    assert [len(row) == MAX_LENGTH for row in rows] == [index == LONG for index in range(5)]
    embedder = load(tmp_path, rerank_format="qwen3-vl-reranker")
    assert embedder.classifier and embedder.classifier.task == "rerank"
    scores = embedder.score(PAIRS, instruction=instruction)
    assert_near(scores[:, 0], differences(model, tmp_path, rows))
    alone = [embedder.score([pair], instruction=instruction)[0] for pair in PAIRS]
    assert np.array_equal(scores, np.stack(alone))


def write_cross_encoder(folder: Path) -> None:
    """Save a model with the files of sentence-transformers, for its task of several media."""
    write_qwen3_vl(folder, max_length=MAX_LENGTH, ends=False)
    write_processor(folder)
    (folder / "chat_template.json").unlink()
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    write_layout(folder, (token_id(folder, "yes"), token_id(folder, "no")), "structured")
    path = folder / "sentence_bert_config.json"
    options = {**json.loads(path.read_text()), "transformer_task": "any-to-any"}
    path.write_text(json.dumps(options), encoding="utf-8")


@pytest.mark.parametrize("prompt", [None, "Find the opposite."])
def test_pairs_are_read_as_by_sentence_transformers(prompt: str | None, tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    model = CrossEncoder(str(tmp_path), device="cpu", activation_fn=torch.nn.Identity())
    predict: Any = model.predict
    expected = exactly(predict)(PAIRS, batch_size=1, prompt=prompt)
    assert_near(load(tmp_path).score(PAIRS, instruction=prompt)[:, 0], expected)


def test_the_task_of_several_media_is_that_of_the_family_alone(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    path = tmp_path / "sentence_bert_config.json"
    options = {**json.loads(path.read_text()), "transformer_task": "fill-mask"}
    path.write_text(json.dumps(options), encoding="utf-8")
    with pytest.raises(ModelError, match="transformer_task = 'fill-mask' is not supported"):
        ModelDescription.read(tmp_path)
