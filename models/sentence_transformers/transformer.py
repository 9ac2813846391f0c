"""The options that sentence-transformers keeps for the encoder, its module named Transformer."""

from dataclasses import dataclass
from pathlib import Path

from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.tokenizer import truncation
from models.tokenizer.truncation import Side

# The first of these that is there counts.
NAMES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_FORWARD = {"method": "forward", "method_output_name": "last_hidden_state"}
_FEATURES = {"method": "get_text_features", "method_output_name": "pooler_output"}
_EMPTY = (
    *("processing_kwargs", "tokenizer_name_or_path"),
    *("query_length", "document_length", "query_expansion"),
)
# Where files come from and how fast they are computed, which both are asked elsewhere; padding.
_HARMLESS = {
    *("cache_dir", "code_revision", "local_files_only", "revision", "subfolder", "token"),
    *("add_pooling_layer", "attn_implementation", "device_map", "dtype", "low_cpu_mem_usage"),
    *("torch_dtype", "trust_remote_code", "unpad_inputs", "use_cache", "use_fast"),
    *("use_memory_efficient_attention", "use_safetensors"),
    *("clean_up_tokenization_spaces", "padding_side"),
}


@dataclass(frozen=True)
class TransformerOptions:
    """max_length: tokens, special ones included. lowercase: whether letters are made small.

    side: where a long text is cut, None: as the tokenizer's own files say.
    """

    max_length: int
    lowercase: bool = False
    side: Side | None = None

    @classmethod
    def read(
        cls, folder: Path, encoder: EncoderConfig, projected: bool = False
    ) -> "TransformerOptions":
        """The options of an encoder. projected: whether it makes a text's vector itself.

        Raises ModelError for an option that is not implemented and might change vectors.
        """
        raw = _options(folder, projected)
        key = "tokenizer_args" if "tokenizer_args" in raw else "processor_kwargs"
        tokenizer = raw.within(key, {*_HARMLESS, "model_max_length", "truncation_side"})
        stated = tokenizer.get("model_max_length") or raw.get("max_seq_length")
        return cls(
            max_length=int(min(stated or _own(folder, encoder.max_positions), encoder.longest)),
            lowercase=bool(raw.get("do_lower_case", False)),
            side=truncation.stated(tokenizer),
        )


def options_file(folder: Path) -> list[Path]:
    """The file of an encoder's options; none where there is none."""
    return [path for name in NAMES if (path := folder / name).exists()][:1]


def _options(folder: Path, projected: bool) -> JsonConfig:
    found = options_file(folder)
    raw = JsonConfig(found[0]) if found else JsonConfig(folder, {})
    raw.only("transformer_task", "feature-extraction")
    raw.only("module_output_name", "sentence_embedding" if projected else "token_embeddings")
    method = _FEATURES if projected else _FORWARD
    modalities = raw.get("modality_config", {"text": method})
    if modalities.get("text") != method:
        raise raw.refusal("modality_config", modalities, {"text": method})
    for key in _EMPTY:
        raw.only(key, None, {})
    for old, new in (("model_args", "model_kwargs"), ("config_args", "config_kwargs")):
        raw.within(old if old in raw else new, _HARMLESS)
    return raw


def _own(folder: Path, usual: int) -> float:
    tokenizer = JsonConfig.optional(folder / "tokenizer_config.json")
    return min(tokenizer.get("model_max_length") or usual, usual)
