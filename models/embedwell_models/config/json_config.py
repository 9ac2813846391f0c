"""Validated access to the JSON files of a model folder, and the names of some."""

import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from embedwell_models.config import other_files
from embedwell_models.errors import ModelError

KALM_RERANKER = "kalm_cross_encoder_config.json"
"""File with the options of a KaLM-Reranker."""
IMAGE_FILES = ("processor_config.json", "preprocessor_config.json")
"""Files with the preprocessing of images: the first one that exists and has any is read."""
WORD_VECTORS = "wordembedding_config.json"
"""File with the options of a folder of word vectors, which has no config.json."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Kind:
    # Type of a value, by its key or its default. name: its name in messages.
    name: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    # json reads NaN and Infinity, too.
    return type(value) is int or (type(value) is float and math.isfinite(value))


_MAX_COUNT, _MAX_SIZE = 1 << 12, 1 << 27
# Far more layers or heads, and far wider or longer tables, than any model has. Values of layers
# are listed before the checkpoint is read, so a higher number would take the memory.


def _whole(most: int) -> _Kind:
    name = f"a whole number above 0 and at most {most}"
    return _Kind(name, lambda value: type(value) is int and 0 < value <= most)


_SIZE, _COUNT = _whole(_MAX_SIZE), _whole(_MAX_COUNT)
_LIMIT = _Kind("a number from 0 on", lambda value: _is_number(value) and value >= 0)
_NUMBER = _Kind("a number", _is_number)
_POSITIVE = _Kind("a number above 0", lambda value: _is_number(value) and value > 0)
_FLAG = _Kind("true or false", lambda value: value in (True, False))
_STRING = _Kind("a string", lambda value: isinstance(value, str))
_OBJECT = _Kind("an object", lambda value: isinstance(value, dict))
_STRINGS = _Kind(
    "an object of strings",
    lambda value: isinstance(value, dict) and _strings(value.values()),
)
_STRINGS_OR_NULL = _Kind(
    "an object of strings",
    lambda value: (
        isinstance(value, dict) and _strings(each for each in value.values() if each is not None)
    ),
)
_LIST = _Kind("a list of strings", lambda value: isinstance(value, list) and _strings(value))
_INDICES = _Kind(
    f"a list of whole numbers up to {_MAX_COUNT}",
    lambda value: isinstance(value, list) and all(map(_is_index, value)),
)
_FACTORS = _Kind(
    "a list of numbers above 0",
    lambda value: isinstance(value, list) and all(map(_POSITIVE.fits, value)),
)
_EITHER = _Kind("a string or a list of them", lambda v: _STRING.fits(v) or _LIST.fits(v))
_REPEATED = _Kind(
    f"a list of [a list of strings, a whole number up to {_MAX_COUNT}]",
    lambda value: isinstance(value, list) and all(map(_repeated, value)),
)
_KEYS: Mapping[_Kind, str] = {
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
    "query_max_length document_max_length encoder_chunk_size position_embedding_size",
    _COUNT: "num_hidden_layers num_layers n_layers n_layer num_hidden_groups num_decoder_layers "
    "num_attention_heads num_heads n_heads n_head encoder_attention_heads encoder_layers "
    "num_key_value_heads num_global_key_value_heads "
    "layers num_cross_heads num_experts moe_top_k num_hash_functions num_feedforward_networks "
    "start_layer layer_sep linear_num_key_heads linear_num_value_heads full_attention_interval "
    "pooling_kernel_size",
    _LIMIT: "layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps max_seq_length "
    "model_max_length max_length rotary_emb_fraction rotary_scaling_factor mscale mscale_all_dim",
    _POSITIVE: "rope_theta rotary_emb_base global_rope_theta local_rope_theta "
    "rope_local_base_freq partial_rotary_factor rotary_pct factor low_freq_factor "
    "high_freq_factor original_max_position_embeddings beta_fast beta_slow attention_factor "
    "scale_depth scale_emb query_pre_attn_scalar lora_alpha mlp_ratio block_ffn_dim_multiplier "
    "adapter_reduction_factor",
    _LIST: "architectures layer_types lora_adaptations skiplist_words modules_to_save languages "
    "task_names model_input_names",
    _INDICES: "full_attn_idxs cutoff_layers block_sizes block_repeats",
    _FACTORS: "short_factor long_factor",
    _EITHER: "pos_att_type skiplist_tasks",
    _REPEATED: "attention_types",
    _STRING: "model_type activation_function feed_forward_type default_prompt_name type path token",
    _STRINGS: "weight_map",
    _STRINGS_OR_NULL: "prompts",
}
_BY_KEY = {key: kind for kind, keys in _KEYS.items() for key in keys.split()}
_BY_TYPE: Mapping[type, _Kind] = {
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


class JsonConfig:
    """Options of a JSON file, each validated when it is read.

    Raises ModelError for a missing key, an unknown key and a value of the wrong type; the message
    names file and key.
    """

    def __init__(
        self, path: Path, content: Any = None, prefix: str = "", read: set[str] | None = None
    ) -> None:
        """content: options, by default the file's. prefix: the keys above them, such as 'a.b.'.

        read: where to note the keys that are read, with the keys above them; an object that is read
        key by key is noted with a point at its end.
        """
        self.path, self._prefix = path, prefix
        self._values = read_object(path) if content is None else _object(path, content)
        self._read = set[str]() if read is None else read

    @classmethod
    def optional(cls, path: Path) -> "JsonConfig":
        """Read a file; a missing file has no options."""
        return cls(path, None if os.path.lexists(path) else {})

    def __contains__(self, key: str) -> bool:
        self._read.add(self._prefix + key)
        return key in self._values

    @property
    def unread(self) -> set[str]:
        """Keys that were not read yet and are not null, such as 'a' and 'b.c'."""
        unread = set[str]()
        for key, value in self._values.items():
            name = self._prefix + key
            if isinstance(value, dict) and f"{name}." in self._read:
                unread |= JsonConfig(self.path, value, f"{name}.", self._read).unread
            elif value is not None and name not in self._read:
                unread.add(name)
        return unread

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise ModelError(f"{self.path} has no {self._prefix + key!r}")
        return self._checked(key, self._values[key])

    def nested(self, key: str) -> "JsonConfig":
        """Return the options under a key; no options if the key is missing or null."""
        prefix = f"{self._prefix}{key}."
        self._read.add(prefix)
        return JsonConfig(self.path, self.get(key, {}), prefix, self._read)

    def with_defaults(self, defaults: Mapping[str, Any]) -> "JsonConfig":
        """Return these options with defaults for missing keys."""
        return JsonConfig(self.path, {**defaults, **self._values}, self._prefix, self._read)

    def with_values(self, values: Mapping[str, Any]) -> "JsonConfig":
        """Return these options with some values replaced."""
        return JsonConfig(self.path, {**self._values, **values}, self._prefix, self._read)

    def without(self, key: str) -> "JsonConfig":
        """Return these options without a key."""
        remaining = {name: value for name, value in self._values.items() if name != key}
        return JsonConfig(self.path, remaining, self._prefix, self._read)

    def nested_only(self, key: str, allowed: Collection[str]) -> "JsonConfig":
        """Return the options under a key; raises ModelError for an option that is not allowed."""
        options = self.nested(key)
        for name, value in self.get(key, {}).items():
            if name not in allowed:
                raise options.unsupported(name, value, sorted(allowed))
        return options

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, which has the default's type; the default if it is missing or null."""
        self._read.add(self._prefix + key)
        value = self._values.get(key)
        return default if value is None else self._checked(key, value, default)

    def nullable(self, key: str, default: Any) -> Any:
        """Return the value, None if it is null; the default if it is missing."""
        return None if key in self and self._values[key] is None else self.get(key, default)

    def first_of(self, *names: str, default: Any = None) -> Any:
        """Return the value of keys that mean the same.

        default: the value if none is present; without a default, one is required.

        Raises ModelError if none is present, and if two have different values: which of them counts
        depends on the version of transformers.
        """
        first, *others = [name for name in names if self._values.get(name) is not None] or names[:1]
        value = self[first] if default is None else self.get(first, default)
        for name in others:
            if self[name] != value:
                raise ModelError(
                    f"{self.path}: {self._prefix}{first} = {value!r} and {name} = {self[name]!r} "
                    "mean the same, but differ: remove the wrong one"
                )
        return value

    def choice(self, key: str, choices: Mapping[str, T], default: str | None = None) -> T:
        """Map the value through `choices`; raises ModelError for another value.

        default: the value if the key is missing or null; without a default the key is required.
        """
        value = self[key] if default is None else self.get(key, default)
        if value not in choices:
            raise self.unsupported(key, value, sorted(choices))
        return choices[value]

    def require(self, key: str, *allowed: Any) -> Any:
        """Return an allowed value, by default the first; raises ModelError for any other value."""
        self._read.add(self._prefix + key)
        value = self._values.get(key)
        value = allowed[0] if value is None else value
        if value not in allowed:
            raise self.unsupported(key, value, allowed)
        return value

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise ModelError for a key that is not known, unless its value is null."""
        for key, value in self._values.items():
            if key not in known and value is not None:
                raise ModelError(
                    f"{self.path}: {self._prefix}{key} = {value!r} is not known, and may change "
                    "vectors. Remove the key if it changes nothing"
                )

    def _checked(self, key: str, value: Any, default: Any = None) -> Any:
        kind = _BY_KEY.get(key) or _BY_TYPE.get(type(default))
        if kind is not None and not kind.fits(value):
            raise ModelError(f"{self.path}: {self._prefix}{key} = {value!r} is not {kind.name}")
        return value

    def unsupported(self, key: str, value: Any, allowed: Any) -> ModelError:
        """Build the error for a value that is not supported."""
        option = f"{self.path}: {self._prefix}{key} = {value!r}"
        return ModelError(f"{option} is not supported; supported: {allowed}")


def read_json(path: Path) -> Any:
    """Parse a JSON file; raises ModelError if it is missing or cannot be read."""
    try:
        return json.loads(other_files.read(path).decode())
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: {_not_a_model(path.parent)}") from None
    except (ValueError, RecursionError) as error:
        problem = other_files.json_problem(path) or f"is not valid JSON: {error}"
        raise ModelError(f"{path} {problem}") from None


_FILES_OF_A_MODEL = "one has config.json, tokenizer.json and weights (*.safetensors)"


def _not_a_model(folder: Path) -> str:
    hint = other_files.folders_inside(folder) or other_files.other_formats(folder)
    return f"not a model folder; {hint or _FILES_OF_A_MODEL}"


def read_object(path: Path) -> dict[str, Any]:
    """Parse a JSON file that must hold an object; raises ModelError."""
    return _object(path, read_json(path))


def _object(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a JSON object")
    return content
