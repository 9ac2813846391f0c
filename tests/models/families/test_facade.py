"""Tests of whole models through the facade, in compiled code where that knows the family."""

from pathlib import Path

import pytest
import torch
from transformers import T5EncoderModel, UMT5EncoderModel

from embedwell_models import Embedder
from embedwell_models.cpu_backend import encoder, library
from tests.models.families.checkpoint import Case, exact_means, write
from tests.models.families.exact import assert_near
from tests.models.tiny import VOCABULARY, write_tokenizer

SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
DISTILBERT = {
    "vocab_size": len(VOCABULARY),
    "dim": 64,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 128,
}
NARROW = {"vocab_size": len(VOCABULARY), "hidden_size": 64}
T5 = {
    "vocab_size": len(VOCABULARY),
    "d_model": 64,
    "d_kv": 32,
    "d_ff": 128,
    "num_layers": 3,
    "num_heads": 2,
}
GEMMA = {
    **{"num_key_value_heads": 1, "head_dim": 64, "query_pre_attn_scalar": 64},
    **{"use_bidirectional_attention": True, "sliding_window": 6, "sliding_window_pattern": 2},
}
GPT_NEO = {
    **NARROW,
    **{"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]},
}
SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep", "mask")}
COMPILED = [
    Case("albert", {}, SIZES),
    Case("albert", {"embedding_size": 64, "num_hidden_groups": 3, "hidden_act": "gelu"}, SIZES),
    Case("bert", {}, SIZES),
    Case("bloom", SPECIAL, {"n_layer": 3, "n_head": 2, **NARROW}),
    Case("camembert", {}, SIZES),
    Case("distilbert", {}, DISTILBERT),
    Case("distilbert", {"sinusoidal_pos_embds": True}, DISTILBERT),
    Case("electra", {"embedding_size": 64}, SIZES),
    Case("electra", {"embedding_size": 32}, SIZES),
    Case("ernie", {}, SIZES),
    Case("esm", {"position_embedding_type": "rotary", "pad_token_id": 1}, SIZES),
    Case("eurobert", SPECIAL, SIZES),
    Case("gemma3_text", {**SPECIAL, **GEMMA}, SIZES),
    Case("gpt2", SPECIAL, {"n_layer": 3, "n_head": 2, "n_embd": 64, **NARROW}),
    Case("gpt_neo", {**SPECIAL, "window_size": 5}, GPT_NEO),
    Case("gpt_neox", SPECIAL, SIZES),
    Case("gte", {}, SIZES),
    Case("jina_embeddings_v3", {}, SIZES),
    Case("llama", {**SPECIAL, "num_key_value_heads": 1}, SIZES),
    Case("luke", {"entity_vocab_size": 9}, SIZES),
    Case("modernbert", {**SPECIAL, "local_attention": 8}, SIZES),
    Case("mpnet", {}, SIZES),
    Case("mpt", SPECIAL, {"n_layers": 3, "n_heads": 2, "d_model": 64, **NARROW}),
    Case("nomic_bert", {}, SIZES),
    Case("qwen3", {**SPECIAL, "num_key_value_heads": 1}, SIZES),
    Case("roformer", {}, SIZES),
    Case("roberta", {"pad_token_id": 0}, SIZES),
    Case("t5", {"feed_forward_proj": "gated-gelu"}, T5, model=T5EncoderModel),
    Case("umt5", {}, T5, model=UMT5EncoderModel),
    Case("xlm-roberta", {"type_vocab_size": 1}, SIZES),
]
ON_TORCH = [
    Case("qwen3", {**SPECIAL, "num_key_value_heads": 1, "head_dim": 16}, SIZES),
]
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]


@pytest.mark.parametrize("case", COMPILED + ON_TORCH, ids=str)
@pytest.mark.full(after=8)
def test_a_vector_is_the_mean_of_what_transformers_has(case: Case, tmp_path: Path) -> None:
    model = write(case, tmp_path)
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, dtype="float32")
    compiled = case in COMPILED and library.best_isa("float32") is not None
    assert isinstance(embedder._encoder, encoder.KernelEncoder) == compiled
    for ids, vector in zip(embedder.tokenize(TEXTS), embedder.embed(TEXTS), strict=True):
        assert_near(vector[None], exact_means(model, [torch.tensor(ids)]))
