"""Cross-encoders of random weights, so large that a wrong detail shows."""

import json
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForSequenceClassification

from tests.models.random_weights import randomize, without_weights
from tests.models.tiny import VOCABULARY, write_tokenizer

SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
_SPECIAL = {f"{name}_token_id": 1 for name in ("bos", "eos", "cls", "sep", "mask")}
_DECODER = {**_SPECIAL, "pad_token_id": 1, "num_key_value_heads": 1, "head_dim": 32}
_GEMMA = {**_DECODER, "query_pre_attn_scalar": 32}
_ROBERTA = {"pad_token_id": 0, "max_position_embeddings": 512}
_GPT_NEO = {**_SPECIAL, "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 2]]}
OPTIONS: dict[str, dict[str, Any]] = {  # by model_type
    "albert": {"embedding_size": 64},
    "bert": {},
    "big_bird": {"attention_type": "original_full"},
    "bloom": {"n_layer": 2, "n_head": 2, "pad_token_id": 1},
    "camembert": _ROBERTA,
    "deberta": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    "deberta-v2": {
        **{"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
        **{"norm_rel_ebd": "layer_norm", "share_att_key": True, "type_vocab_size": 0},
    },
    "distilbert": {"dim": 64, "n_layers": 2, "n_heads": 2, "hidden_dim": 128},
    "electra": {"embedding_size": 64},
    "ernie": {},
    "esm": {"position_embedding_type": "rotary", "pad_token_id": 1},
    "eurobert": {**_SPECIAL, "pad_token_id": 1},
    "funnel": {"block_sizes": [1, 2], "d_model": 64, "n_head": 2, "d_head": 32, "d_inner": 128},
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gpt2": {**_SPECIAL, "pad_token_id": 1},
    "gpt_neo": {**_GPT_NEO, "pad_token_id": 1},
    "gpt_neox": {**_SPECIAL, "pad_token_id": 1},
    "gptj": {**_SPECIAL, "pad_token_id": 1, "rotary_dim": 16},
    "gte": {},
    "jina_embeddings_v3": {},
    "llama": _DECODER,
    "longformer": {**_ROBERTA, "attention_window": 6},
    "luke": {**_ROBERTA, "entity_vocab_size": 4, "entity_emb_size": 8},
    "ministral3": _DECODER,
    "mistral": _DECODER,
    "mobilebert": {"intra_bottleneck_size": 32, "embedding_size": 32},
    "modernbert": {**_SPECIAL, "pad_token_id": 1},
    "mpnet": {},
    "mpt": {"d_model": 64, "n_layers": 2, "n_heads": 2, "pad_token_id": 1},
    "nomic_bert": {},
    "phi3": {**_SPECIAL, "pad_token_id": 1, "num_key_value_heads": 1},
    "qwen3": _DECODER,
    "roberta": _ROBERTA,
    "roformer": {},
    "xlm-roberta": {**_ROBERTA, "type_vocab_size": 1},
    "xmod": {**_ROBERTA, "default_language": "en_XX"},
    "xlnet": {"d_model": 64, "n_layer": 2, "n_head": 2, "d_inner": 128},
}
WITH_SEGMENTS = ("bert", "electra", "ernie", "nomic_bert")


def write_cross_encoder(
    folder: Path, labels: int = 1, model_type: str = "bert", max_length: int = 64, **options: Any
) -> Path:
    """Save a model that scores pairs, with a tokenizer that puts the second text in a segment."""
    own_sizes = model_type in ("distilbert", "funnel", "xlnet")
    sizes = {"vocab_size": len(VOCABULARY)} if own_sizes else SIZES
    config = AutoConfig.for_model(
        model_type, **{**sizes, **OPTIONS[model_type], "num_labels": labels, **options}
    )
    auto: Any = AutoModelForSequenceClassification
    model = without_weights(lambda: auto.from_config(config))
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    configure_tokenizer(
        folder,
        model_max_length=max_length,
        **({"tokenizer_class": "BertTokenizer"} if model_type in WITH_SEGMENTS else {}),
    )
    return folder


def configure_tokenizer(folder: Path, **values: Any) -> None:
    """Change values of tokenizer_config.json."""
    path = folder / "tokenizer_config.json"
    content = {**json.loads(path.read_text(encoding="utf-8")), **values}
    path.write_text(json.dumps(content), encoding="utf-8")


def without_options_of_heads(folder: Path) -> Path:
    """Remove the options of activations, norms, biases and tied weights from config.json."""
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    words = ("act", "activation", "eps", "bias", "tie", "legacy", "pooling", "pooler", "summary")
    kept = {name: v for name, v in content.items() if not set(words) & set(name.split("_"))}
    assert len(kept) < len(content)
    path.write_text(json.dumps(kept), encoding="utf-8")
    return folder
