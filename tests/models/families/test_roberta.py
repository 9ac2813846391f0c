"""Tests of RoBERTa, XLM-RoBERTa and CamemBERT against transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import RobertaForMaskedLM, RobertaForSequenceClassification

from embedwell_models import Embedder, families
from tests.models.cross_encoder import write_cross_encoder
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.files import Tensors, assert_refused, change, edit

CASES = [
    *(
        Case("roberta", {"hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Case("roberta", {"type_vocab_size": 1, "layer_norm_eps": 0.05}),
    Case("roberta", {"pad_token_id": 3, "max_position_embeddings": 44}),
    Case("roberta", {"num_labels": 2}, model=RobertaForSequenceClassification),
    Case("roberta", model=RobertaForMaskedLM),
    Case("camembert"),
    Case("xlm-roberta", {"max_position_embeddings": 42}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


def test_positions_begin_after_the_padding_token(tmp_path: Path) -> None:
    write(Case("roberta", {"max_position_embeddings": 44}), tmp_path)
    assert families.read(tmp_path).config.max_positions == 42
    edit(tmp_path, pad_token_id=3)
    assert families.read(tmp_path).config.max_positions == 40


def test_other_positions_and_decoders_are_refused(tmp_path: Path) -> None:
    write(Case("roberta"), tmp_path)
    assert_refused(tmp_path, position_embedding_type="relative_key", is_decoder=True)


def test_jinas_own_names_of_a_reranker_lead_to_the_same_scores(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, model_type="xlm-roberta")
    pairs = [("the license", "by any"), ("of a", "you " * 30)]
    expected = Embedder.load(folder, device="cpu", dtype="float32").score(pairs)
    change(folder, _with_own_names)
    code = "jinaai/jina-reranker-v2-base-multilingual--modeling_xlm_roberta.XLMRobertaModel"
    edit(folder, "id2label", "label2id", use_flash_attn=True, auto_map={"AutoModel": code})
    ours = Embedder.load(folder, device="cpu", dtype="float32")
    assert np.array_equal(ours.score(pairs), expected)
    assert ours.classifier and ours.classifier.labels == ("LABEL_0",)


def _with_own_names(tensors: Tensors) -> Tensors:
    parts = {
        "embeddings.LayerNorm": "emb_ln",
        "encoder.layer.": "encoder.layers.",
        "attention.output.dense": "mixer.out_proj",
        "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "mlp.fc1",
        ".output.dense": ".mlp.fc2",
        ".output.LayerNorm": ".norm2",
    }
    own = {}
    for name, tensor in tensors.items():
        new = name.replace("attention.self.query", "mixer.Wqkv")
        for theirs, ours in parts.items():
            new = new.replace(theirs, ours)
        fused = [tensors[name.replace("query", part)] for part in ("query", "key", "value")]
        own[new] = torch.cat(fused) if "Wqkv" in new else tensor
    return {name: tensor for name, tensor in own.items() if ".self." not in name}
