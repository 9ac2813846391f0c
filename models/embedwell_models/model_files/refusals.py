"""Refusal of files that may change vectors: unknown keys, and weights that are not plain.

The keys of sentence-transformers are known if they are read, or change no vector; those of a later
version may change vectors.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from embedwell_models.checkpoint import formats
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_files.card import read_card
from embedwell_models.model_files.modules import ModuleEntry
from embedwell_models.model_files.transformer import options_file

_LEVELS = {"module_input_name", "module_output_name"}
_WIDTHS = {"embedding_dimension", "word_embedding_dimension"}  # which change nothing
CARD_KEYS = {
    *("model_type", "prompts", "default_prompt_name", "truncate_dim", "max_active_dims"),
    *("activation_fn", "similarity_fn_name", "query_prefix", "document_prefix"),
    *("query_length", "document_length", "query_expansion", "do_query_expansion"),
    *("attend_to_expansion_tokens", "attend_to_mask_tokens", "skiplist_words"),
    *("__version__", "keep_in_fp32_modules"),  # change nothing
}
TRANSFORMER_KEYS = {
    *("max_seq_length", "do_lower_case", "transformer_task", "modality_config"),
    *("module_output_name", "processing_kwargs", "tokenizer_name_or_path"),
    *("model_args", "model_kwargs", "config_args", "config_kwargs"),
    *("tokenizer_args", "processor_kwargs"),
    *("query_length", "document_length", "query_expansion"),
    "unpad_inputs",  # changes nothing
}
MODULE_KEYS: Mapping[str, set[str]] = {  # kind of a module -> keys of its config.json
    "Pooling": {
        *("pooling_mode", "include_prompt", "pooling_mode_cls_token"),
        *("pooling_mode_max_tokens", "pooling_mode_mean_tokens"),
        *("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"),
        *("pooling_mode_lasttoken", "assumed"),
        *_WIDTHS,
    },
    "Dense": {
        *("in_features", "out_features", "bias", "activation_function", "use_residual"),
        *_LEVELS,
    },
    "LayerNorm": {"dimension"},
    "Normalize": _LEVELS,
    "Dropout": {"dropout"},
    "SpladePooling": {"pooling_strategy", "activation_function", "chunk_size", *_WIDTHS},
    "MultiVectorMask": {"skiplist_words", "skiplist_tasks", "keep_only_token_ids"},
    "WordWeights": {"vocab", "word_weights", "unknown_word_weight"},
    "WeightedLayerPooling": {"layer_start", "num_hidden_layers", *_WIDTHS},
    "LogitScore": {"true_token_id", "false_token_id", "module_input_name"},
}


def refuse_unknown_keys(folder: Path, entries: Sequence[ModuleEntry]) -> None:
    """Raise ModelError for an unknown key in a model's card and in the files of its modules."""
    read_card(folder).refuse_unknown(CARD_KEYS)
    if file := options_file(folder, entries[0].path):
        JsonConfig(file).refuse_unknown(TRANSFORMER_KEYS)
    for entry in entries:
        file = folder / entry.path / "config.json"
        if entry.kind in MODULE_KEYS and entry.path and file.exists():
            JsonConfig(file).refuse_unknown(MODULE_KEYS[entry.kind])


def refuse_changed_weights(encoder: Path) -> None:
    """Raise ModelError for an encoder with an adapter or unknown quantised weights."""
    adapter = JsonConfig.optional(encoder / "adapter_config.json")
    if adapter.path.exists():
        raise ModelError(
            f"{adapter.path}: an adapter ({adapter.get('peft_type')}) next to a whole model: "
            "delete its files if the weights have it; otherwise put them into a folder of their own"
        )
    formats.quantization(encoder)
