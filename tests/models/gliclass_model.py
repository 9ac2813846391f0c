"""A GLiClass of random weights, written by the authors' code."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from embedwell_decide.label_options import EXAMPLE, LABEL, SEPARATOR
from tests.models.random_weights import randomize
from tests.models.tiny import SPECIAL, VOCABULARY, write_tokenizer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ray, which it imports, uses old options of pydantic
    from gliclass import GLiClassModel, GLiClassModelConfig, ZeroShotClassificationPipeline

__all__ = ["GLiClassModel", "ZeroShotClassificationPipeline"]  # for the tests

_SIZES: Mapping[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 96,
    "pad_token_id": SPECIAL["[PAD]"],
}
ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "modernbert": {
        **_SIZES,
        "local_attention": 16,
        "max_position_embeddings": 4096,
        **{f"{role}_token_id": SPECIAL["[CLS]"] for role in ("bos", "cls", "eos", "sep")},
    },
    "deberta-v2": {
        **_SIZES,
        "max_position_embeddings": 48,
        "norm_rel_ebd": "layer_norm",
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "position_buckets": 8,
        "relative_attention": True,
        "share_att_key": True,
        "type_vocab_size": 0,
    },
}


def write_gliclass(folder: Path, encoder: str = "modernbert", **options: Any) -> Path:
    """Write a model and its tokenizer. options: of config.json, in place of the defaults."""
    stated = {"prompt_first": True, **options}
    config = GLiClassModelConfig(
        encoder_config={"model_type": encoder, **ENCODERS[encoder]},
        encoder_model="unused",
        vocab_size=len(VOCABULARY) + 3,
        class_token_index=len(VOCABULARY),
        text_token_index=len(VOCABULARY) + 1,
        example_token_index=len(VOCABULARY) + 2,
        **stated,
    )
    model = GLiClassModel(config)
    model.train(False)
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    file = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(file)
    rust.add_tokens([LABEL, SEPARATOR, EXAMPLE])
    rust.save(file)
    return folder
