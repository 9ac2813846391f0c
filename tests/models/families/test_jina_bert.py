"""Tests of JinaBERT against what is published of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from embedwell_models import Embedder, families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    assert_published_states,
    assert_same_bits,
    encoder,
    texts,
)
from tests.models.families.exact import assert_near, exactly
from tests.models.families.files import (
    assert_refused,
    assert_same_weights,
    change,
    edit,
    loaded,
)
from tests.models.families.jina import Reference, tensors
from tests.models.tiny import VOCABULARY, write_tokenizer

CODE = {
    "_name_or_path": "/somewhere",
    "auto_map": {"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--modeling_bert.JinaBertModel"},
}
PLAIN = {"auto_map": {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}}


def write(folder: Path, code: bool = False, **options: Any) -> Reference:
    """Save a JinaBERT of random weights."""
    config = {
        "model_type": "bert",
        "position_embedding_type": "alibi",
        "feed_forward_type": "geglu",
        "hidden_act": "gelu",
        "vocab_size": len(VOCABULARY),
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 8192,
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
        **(CODE if code else PLAIN),
        **options,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = tensors(48, 40, 3, len(VOCABULARY), code)
    save_file(found, folder / "model.safetensors")
    return Reference(
        found,
        layers=3,
        heads=int(str(config["num_attention_heads"])),
        act=str(config["feed_forward_type"]),
        eps=float(str(config["layer_norm_eps"])),
        code=code,
    )


@pytest.mark.parametrize("code", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"feed_forward_type": "reglu"},
        {"num_attention_heads": 6},
        {"layer_norm_eps": 0.05},
    ],
    ids=str,
)
@pytest.mark.full(after=2)
def test_every_layer_equals_what_is_published(
    code: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    reference = write(tmp_path, code, **options)
    assert_published_states(reference, encoder(tmp_path), texts(99))


@pytest.mark.parametrize("code", [False, True])
def test_a_vector_is_the_mean_of_the_last_states(code: bool, tmp_path: Path) -> None:
    reference = write(tmp_path, code)
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, dtype="float32")
    ids = embedder.tokenize(["the license"])[0]
    expected = exactly(lambda: reference(torch.tensor(ids))[-1].mean(dim=0))()
    assert_near(embedder.embed(["the license"])[0], expected)


@pytest.mark.parametrize("code", [False, True])
def test_a_text_is_the_same_bits_in_every_batch(code: bool, tmp_path: Path) -> None:
    write(tmp_path, code)
    assert_same_bits(tmp_path)


def test_the_name_of_a_path_tells_the_code_variant_too(tmp_path: Path) -> None:
    write(tmp_path, code=True)
    before = loaded(tmp_path)
    edit(tmp_path, "auto_map", _name_or_path="jinaai/jina-bert-v2-qk-post-norm")
    assert_same_weights(loaded(tmp_path), before)


def test_a_code_variant_that_is_not_told_is_refused(tmp_path: Path) -> None:
    write(tmp_path, code=True)
    edit(tmp_path, "auto_map")
    with pytest.raises(ModelError, match=r"unknown tensor 'encoder\.layer\.0\.\S*layer_norm"):
        loaded(tmp_path)


def test_the_heads_of_a_masked_language_model_are_not_read(tmp_path: Path) -> None:
    write(tmp_path)
    before = loaded(tmp_path)
    head = {"cls.predictions.bias": torch.zeros(99)}
    change(tmp_path, lambda all_: {**{f"bert.{name}": part for name, part in all_.items()}, **head})
    assert_same_weights(loaded(tmp_path), before)


def test_it_reads_as_many_tokens_as_its_config_tells(tmp_path: Path) -> None:
    write(tmp_path)
    config = families.read(tmp_path).config
    assert (config.family, config.max_positions) == ("jina_bert", 8192)


def test_a_network_without_gates_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    assert_refused(tmp_path, feed_forward_type="original", is_decoder=True)
    edit(tmp_path, "feed_forward_type")
    with pytest.raises(ModelError, match="has no 'feed_forward_type'"):
        families.read(tmp_path)


def test_a_reranker_has_berts_head(tmp_path: Path) -> None:
    reference = write(tmp_path, architectures=["JinaBertForSequenceClassification"])
    write_tokenizer(tmp_path)
    noise = torch.Generator().manual_seed(3)
    own = {f"bert.{name}": part for name, part in reference.tensors.items()}
    weight = torch.randn(1, 48, generator=noise)
    own |= {"classifier.weight": weight, "classifier.bias": torch.ones(1)}
    change(tmp_path, lambda all_: own)
    fast: Any = AutoTokenizer
    ids = fast.from_pretrained(tmp_path)("the license", "by any")["input_ids"]

    @exactly
    def logits() -> torch.Tensor:
        pooled = reference.linear("pooler.dense", reference(torch.tensor(ids))[-1][:1]).tanh()
        return torch.nn.functional.linear(pooled, weight, torch.ones(1))

    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    assert embedder.classifier and embedder.classifier.labels == ("LABEL_0",)
    assert_near(embedder.score([("the license", "by any")]), logits())
