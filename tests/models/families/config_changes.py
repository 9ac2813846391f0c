"""Changes to single values of a config.json."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Keys that say how the file is read and which class reads it.
_ELSEWHERE = {"model_type", "architectures", "transformers_version", "dtype", "return_dict"}
# Sizes of tensors, which the checkpoint's header states, too.
_SIZES = {
    *("vocab_size", "hidden_size", "embedding_size", "intermediate_size", "hidden_dim", "dim"),
    *("d_model", "d_inner", "d_ff", "d_kv", "d_head", "n_embd", "n_inner", "head_dim"),
    *("embedding_dim", "hidden_size_per_layer_input", "intra_bottleneck_size", "rotary_dim"),
    *("num_hash_buckets", "global_head_dim", "patch_size", "image_size", "projection_size"),
    "expansion_ratio",
}
_ACTIVATIONS = ("gelu", "gelu_new", "silu", "relu", "quick_gelu", "gelu_pytorch_tanh", "tanh")
# Other values of keys whose values are names.
_NAMES: Mapping[str, Sequence[str]] = {
    "attention_type": ("block_sparse", "original_full"),
    "attn_type": ("bi", "uni"),
    "feed_forward_proj": ("relu", "gated-gelu", "gated-silu", "gelu"),
    "layer_types": ("full_attention", "sliding_attention", "conv"),
    "norm_rel_ebd": ("layer_norm", "none"),
    "norm_type": ("low_precision_layernorm", "layernorm"),
    "pos_att_type": ("c2p", "p2c"),
    "position_embedding_type": ("absolute", "rotary", "relative_key", "alibi"),
    "rope_type": ("default", "linear", "dynamic", "yarn", "llama3", "longrope"),
}
_OF_NULLS = (True, 3, 0.5, "relu", [0])


@dataclass(frozen=True)
class Change:
    """A key, after those above it, and its new value."""

    keys: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        return f"{'.'.join(self.keys)} = {self.value!r}"

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that a message about the change may name."""
        return tuple(key for key in self.keys if not key.isdigit())


def all_changes(options: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[Change]:
    """Change each value, also those of nested objects, to every other value to be tried."""
    for key, value in options.items():
        if key in _ELSEWHERE or key in _SIZES:
            continue
        if isinstance(value, dict):
            yield from all_changes(value, (*above, key))
        for other in _others(key, value):
            if other != value or type(other) is not type(value):
                yield Change((*above, key), other)


def apply(options: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """Copy options and make changes to the copy."""
    copied = copy.deepcopy(dict(options))
    for change in changes:
        inner = copied
        for key in change.keys[:-1]:
            inner = inner[key]
        inner[change.keys[-1]] = change.value
    return copied


def _others(key: str, value: Any) -> Sequence[Any]:
    if value is None:
        return _OF_NULLS
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value // 2]
    if isinstance(value, float):
        return [value * 2 + 0.1]
    if isinstance(value, str):
        return _NAMES.get(key, _ACTIVATIONS if value in _ACTIVATIONS else ("other",))
    return _lists(key, value) if isinstance(value, list) else [{}]


def _lists(key: str, values: list[Any]) -> Sequence[list[Any]]:
    """Change each element in turn; and reverse them, and keep only the first."""
    changed = [
        [*values[:index], other, *values[index + 1 :]]
        for index, value in enumerate(values)
        for other in ([] if isinstance(value, list | dict) else _others(key, value))
    ]
    return [*changed, values[::-1], values[:1]]
