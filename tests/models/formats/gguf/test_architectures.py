"""Models of each architecture have the states of transformers on random weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EuroBertConfig,
    EuroBertModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    LlamaConfig,
    LlamaModel,
    ModernBertConfig,
    ModernBertModel,
    NomicBertConfig,
    NomicBertModel,
    Qwen2Config,
    Qwen2Model,
    Qwen3Config,
    Qwen3Model,
)

from embedwell_formats.gguf.blocks import BLOCK_TYPES, BlockMatrix
from tests.models import gguf_files, kinds
from tests.models.families.exact import assert_near, expected
from tests.models.gguf_models import (
    DECODER,
    IDS,
    OF_BERT,
    OF_DECODER,
    SIZES,
    exact_vector,
    load,
    random,
    renamed,
)

GEMMA: dict[str, Any] = {**DECODER, "sliding_window": 8, "query_pre_attn_scalar": 32}
MARKS = ["<|im_start|>", "<|im_end|>"]


def alternated(matrix: Any, heads: int) -> Any:
    """The rows of a matrix as llama.cpp's converter orders those of queries and keys."""
    return matrix.reshape(heads, 2, -1, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


TWO_HEADS: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1}
NOMIC = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "attn_output_norm",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_proj": "ffn_gate",
    "mlp.down_proj": "ffn_down",
    "post_mlp_layernorm": "layer_output_norm",
}
DECODERS: Mapping[str, tuple[Any, Any, dict[str, Any]]] = {
    "qwen3": (
        Qwen3Model,
        Qwen3Config(**{**DECODER, "rope_theta": 5000.0}),
        {"rope.freq_base": 5000.0},
    ),
    "qwen2": (
        *(Qwen2Model, Qwen2Config(**{**DECODER, **TWO_HEADS})),
        {"attention.head_count": 2, "attention.head_count_kv": 1},
    ),
    "llama": (LlamaModel, LlamaConfig(**DECODER), {}),
    "eurobert": (
        *(EuroBertModel, EuroBertConfig(**DECODER, pad_token_id=0)),
        {"pooling_type": 1, "attention.causal": False, "rope.scaling.type": "none"},
    ),
    "gemma3": (Gemma3TextModel, Gemma3TextConfig(**GEMMA), {}),
    "gemma-embedding": (
        *(Gemma3TextModel, Gemma3TextConfig(**GEMMA, use_bidirectional_attention=True)),
        {"pooling_type": 1},
    ),
}


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_has_the_states_of_transformers(tmp_path: Path, kind: str) -> None:
    make, config, keys = DECODERS[kind]
    model = random(make(config))
    tensors = renamed(kind, model)
    for name, tensor in tensors.items():
        if kind.startswith("gemma") and name.endswith("norm.weight"):
            tensors[name] = tensor + 1
        if kind == "llama" and name.endswith(("attn_q.weight", "attn_k.weight")):
            tensors[name] = alternated(tensor, 4 if "attn_q" in name else 2)
    embedder = load(tmp_path, kind, {**OF_DECODER, **keys}, tensors)
    mode = "mean" if keys.get("pooling_type") == 1 else "lasttoken"
    assert_near(embedder.encode([IDS])[0], exact_vector(model, mode))


def test_a_decoder_without_a_pooling_has_its_last_state_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, config, keys = DECODERS["qwen3"]
    model = random(make(config))
    stated = {key: value for key, value in {**OF_DECODER, **keys}.items() if key != "pooling_type"}
    for causal in (True, False):
        said = {**stated, "attention.causal": causal}
        embedder = load(tmp_path, "qwen3", said, renamed("qwen3", model))
        mode = "lasttoken" if causal else "mean"
        assert (embedder.recipe.pooling, embedder.recipe.normalize) == ((mode,), True)
        assert embedder.recipe.pooling_source == "assumed"
        assert f"states no pooling: {mode} is assumed" in caplog.text
        if causal:
            assert_near(embedder.encode([IDS])[0], exact_vector(model, mode))


def test_nomic_has_the_states_of_transformers(tmp_path: Path) -> None:
    config = NomicBertConfig(**SIZES, layer_norm_eps=0.05, hidden_act="silu")
    model = random(NomicBertModel(config, add_pooling_layer=False))
    values, tensors = {name: value.numpy() for name, value in model.state_dict().items()}, {}
    for name, value in values.items():
        stem, _, ending = name.rpartition(".")
        _, layer, rest = stem.split(".", 2) if stem.startswith("layers.") else ("", "", stem)
        if rest in NOMIC:
            prefix = f"blk.{layer}." if layer else ""
            tensors[f"{prefix}{NOMIC[rest]}.{ending}"] = value
    for layer in map(str, range(7)):
        parts = [values[f"layers.{layer}.self_attn.{part}_proj.weight"] for part in "qkv"]
        tensors[f"blk.{layer}.attn_qkv.weight"] = gguf_files.quantize(np.concatenate(parts))
    decoded = {
        f"layers.{layer}.self_attn.{part}_proj.weight": rows
        for layer in range(7)
        for part, rows in zip("qkv", _thirds(tensors[f"blk.{layer}.attn_qkv.weight"]), strict=True)
    }
    model.load_state_dict({**model.state_dict(), **decoded})
    embedder = load(tmp_path, "nomic-bert", {**OF_BERT, "rope.freq_base": 1000.0}, tensors)
    assert_near(embedder.encode([IDS])[0], exact_vector(model, "mean"))


def test_modernbert_has_the_states_of_transformers(tmp_path: Path) -> None:
    types = ["full_attention" if layer % 3 == 0 else "sliding_attention" for layer in range(7)]
    bases = {"full_attention": 5000.0, "sliding_attention": 300.0}
    rotary = {name: {"rope_type": "default", "rope_theta": base} for name, base in bases.items()}
    options: dict[str, Any] = {
        **{**SIZES, "intermediate_size": 128, "norm_eps": 0.05, "local_attention": 8},
        **{"layer_types": types, "rope_parameters": rotary, "attn_implementation": "eager"},
        **dict.fromkeys((f"{role}_token_id" for role in ("pad", "bos", "eos", "cls", "sep")), 0),
    }
    model = random(ModernBertModel(ModernBertConfig(**options)))
    keys = {
        **{**OF_BERT, "feed_forward_length": 128, "attention.sliding_window": 8},
        **{"rope.freq_base": 5000.0, "rope.freq_base_swa": 300.0},
    }
    embedder = load(tmp_path, "modern-bert", keys, renamed("modern-bert", model))
    assert_near(embedder.encode([IDS])[0], exact_vector(model, "mean"))


def _thirds(blocks: Any) -> list[torch.Tensor]:
    rows = BlockMatrix(blocks, BLOCK_TYPES["Q8_0"]).to_float32()
    return [torch.from_numpy(part.copy()) for part in np.split(rows, 3)]


def of_qwen() -> dict[str, Any]:
    """The tokenizer of a small Qwen."""
    content = json.loads(kinds.text("qwen"))
    vocabulary = {**content["model"]["vocab"]}
    merges = [m if isinstance(m, str) else " ".join(m) for m in content["model"]["merges"]]
    tokens = [*sorted(vocabulary, key=vocabulary.__getitem__), *MARKS]
    kinds_ = [3 if token in MARKS else 1 for token in tokens]
    values = {"tokens": tokens, "token_type": kinds_, "merges": merges}
    return {"model": "gpt2", "pre": "qwen2", **values}


def encoded(text: str) -> list[int]:
    """The ids of a text without special tokens around it."""
    tokenizer = Tokenizer.from_str(kinds.text("qwen"))
    tokenizer.add_special_tokens(MARKS)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@pytest.mark.parametrize("name", ["Qwen3 VL Embedding 2B", "Qwen3 VL 2B Instruct"])
def test_texts_of_qwen3_vl_embedding_are_messages(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = of_qwen()
    sizes = {**DECODER, "vocab_size": len(tokens["tokens"]), "rope_theta": 5000.0}
    model = random(Qwen3Model(Qwen3Config(**sizes)))
    keys = {**OF_DECODER, "rope.freq_base": 5000.0, "context_length": 512, "general.name": name}
    embedder = load(tmp_path, "qwen3vl", keys, renamed("qwen3", model), tokens)
    is_embedding = "Embedding" in name
    text = "a license"
    if is_embedding:
        text = (
            "<|im_start|>system\nRepresent the user's input.<|im_end|>\n<|im_start|>user\n"
            "a license<|im_end|>\n<|im_start|>assistant\n"
        )
    assert ("as in Qwen3-VL-Embedding: send texts as they are" in caplog.text) == is_embedding
    ids = encoded(text)
    assert_near(embedder.embed(["a license"])[0], exact_vector(model, ids=ids))


def test_a_reranker_of_qwen3_has_the_logits_of_its_answers(tmp_path: Path) -> None:
    tokens = of_qwen()
    sizes = {**DECODER, "vocab_size": len(tokens["tokens"]), "rope_theta": 5000.0}
    model = random(Qwen3Model(Qwen3Config(**sizes)))
    answers = np.random.default_rng(2).normal(size=(2, 64)).astype(np.float32)
    keys: dict[str, Any] = {**OF_DECODER, "pooling_type": 4, "rope.freq_base": 5000.0}
    keys |= {"classifier.output_labels": ["yes", "no"], "context_length": 1024}
    tensors = {**renamed("qwen3", model), "cls.output.weight": answers}
    embedder = load(tmp_path, "qwen3", keys, tensors, tokens)
    text = (
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        'and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
        "answer the query\n<Query>: a query\n<Document>: a license<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    ids = encoded(text)
    difference = torch.from_numpy(answers[0] - answers[1])
    logit = expected(
        model, lambda either: either(torch.tensor([ids])).last_hidden_state[:, -1:] @ difference
    )
    assert_near(embedder.score([("a query", "a license")]), logit)


def test_a_reranker_has_the_scores_of_transformers(tmp_path: Path) -> None:
    config = BertConfig(**{**SIZES, "layer_norm_eps": 0.05, "num_labels": 1})
    model = random(BertForSequenceClassification(config))
    tensors = renamed("bert", model.bert)
    for ours, layer in (("cls", model.bert.pooler.dense), ("cls.output", model.classifier)):
        tensors |= {f"{ours}.{name}": value.numpy() for name, value in layer.state_dict().items()}
    embedder = load(tmp_path, "bert", {**OF_BERT, "pooling_type": 4}, tensors)
    ids, segments = [2, 5, 6, 3, 9, 3], [0, 0, 0, 0, 1, 1]
    pair = {"token_type_ids": torch.tensor([segments])}
    logits = expected(model, lambda either: either(torch.tensor([ids]), **pair).logits)
    assert_near(embedder.score([("w1 w2", "w5")]), logits)
