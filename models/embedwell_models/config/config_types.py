"""Types of the values in a model's JSON files, by key or by default value."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """Type of a value. name: its name in error messages."""

    name: str
    fits: Callable[[Any], bool]


_MAX_COUNT, _MAX_SIZE = 1 << 12, 1 << 27
# Far more layers or heads, and far wider or longer tables, than any model has. Values of layers
# are listed before the checkpoint is read, so a higher number would take the memory.


def _whole(most: int) -> Kind:
    name = f"a whole number above 0 and at most {most}"
    return Kind(name, lambda value: type(value) is int and 0 < value <= most)


_SIZE, _COUNT = _whole(_MAX_SIZE), _whole(_MAX_COUNT)
_LIMIT = Kind("a number from 0 on", lambda value: type(value) in (int, float) and value >= 0)
_NUMBER = Kind("a number", lambda value: type(value) in (int, float))
_POSITIVE = Kind("a number above 0", lambda value: type(value) in (int, float) and value > 0)
_FLAG = Kind("true or false", lambda value: value in (True, False))
_STRING = Kind("a string", lambda value: isinstance(value, str))
_OBJECT = Kind("an object", lambda value: isinstance(value, dict))
_STRINGS = Kind(
    "an object of strings",
    lambda value: isinstance(value, dict) and _strings(value.values()),
)
_LIST = Kind("a list of strings", lambda value: isinstance(value, list) and _strings(value))
_INDICES = Kind(
    f"a list of whole numbers up to {_MAX_COUNT}",
    lambda value: isinstance(value, list) and all(map(_is_index, value)),
)
_FACTORS = Kind(
    "a list of numbers above 0",
    lambda value: isinstance(value, list) and all(map(_POSITIVE.fits, value)),
)
_EITHER = Kind("a string or a list of them", lambda v: _STRING.fits(v) or _LIST.fits(v))
_REPEATED = Kind(
    f"a list of [a list of strings, a whole number up to {_MAX_COUNT}]",
    lambda value: isinstance(value, list) and all(map(_repeated, value)),
)
_KEYS: Mapping[Kind, str] = {
    _SIZE: "vocab_size hidden_size n_embed n_embd dim d_model embedding_size head_dim d_kv "
    "intermediate_size hidden_dim d_ff d_inner encoder_ffn_dim "
    "local_attention global_attn_every_n_layers "
    "max_position_embeddings n_positions seq_length max_seq_len r "
    "relative_attention_num_buckets lora_rank sliding_window window_size in_features out_features "
    "dimension image_size img_size patch_size projection_dim projection_size "
    "query_length document_length query_maxlen doc_maxlen length num_labels "
    "downsampling_rate upsampling_kernel_size num_hash_buckets "
    "local_transformer_stride block_ff_dim block_multiple_of conv_L_cache "
    "intra_bottleneck_size "
    "global_head_dim hidden_size_per_layer_input embedding_dim "
    "sliding_window_pattern num_latents_value cross_dim_head latent_dim "
    "embed_dim width head_width pt_hw_seq_len "
    "truncate_dim block_size num_random_blocks d_head "
    "linear_key_head_dim linear_value_head_dim linear_conv_kernel_dim "
    "query_max_length document_max_length encoder_chunk_size",
    _COUNT: "num_hidden_layers num_layers n_layers n_layer num_hidden_groups num_decoder_layers "
    "num_attention_heads num_heads n_heads n_head encoder_attention_heads encoder_layers "
    "num_key_value_heads num_global_key_value_heads "
    "layers num_cross_heads num_experts moe_top_k num_hash_functions num_feedforward_networks "
    "start_layer layer_sep linear_num_key_heads linear_num_value_heads full_attention_interval",
    _LIMIT: "layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps max_seq_length "
    "model_max_length max_length rotary_emb_fraction rotary_scaling_factor mscale mscale_all_dim",
    _POSITIVE: "rope_theta rotary_emb_base global_rope_theta local_rope_theta "
    "rope_local_base_freq partial_rotary_factor rotary_pct factor low_freq_factor "
    "high_freq_factor original_max_position_embeddings beta_fast beta_slow attention_factor "
    "scale_depth scale_emb query_pre_attn_scalar lora_alpha mlp_ratio block_ffn_dim_multiplier "
    "adapter_reduction_factor",
    _LIST: "architectures layer_types lora_adaptations skiplist_words modules_to_save languages "
    "task_names",
    _INDICES: "full_attn_idxs cutoff_layers block_sizes block_repeats",
    _FACTORS: "short_factor long_factor",
    _EITHER: "pos_att_type skiplist_tasks",
    _REPEATED: "attention_types",
    _STRING: "model_type activation_function feed_forward_type default_prompt_name type path token",
    _STRINGS: "prompts weight_map",
}
_BY_KEY = {key: kind for kind, keys in _KEYS.items() for key in keys.split()}
_BY_TYPE: Mapping[type, Kind] = {
    bool: _FLAG,
    int: _NUMBER,
    float: _NUMBER,
    str: _STRING,
    dict: _OBJECT,
}


def _strings(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _repeated(value: Any) -> bool:
    pair = value if isinstance(value, list) and len(value) == 2 else (None, None)
    return _LIST.fits(pair[0]) and _is_index(pair[1])


def _is_index(value: Any) -> bool:
    return type(value) is int and value <= _MAX_COUNT


def kind(key: str, default: Any = None) -> Kind | None:
    """Return the type of a value by its key, else by its default; None if any value is allowed."""
    return _BY_KEY.get(key) or _BY_TYPE.get(type(default))
