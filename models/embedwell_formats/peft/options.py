"""Options of an adapter as PEFT writes them (`adapter_config.json`).

LoRA: Hu et al. 2021, arXiv 2106.09685. DoRA: Liu et al. 2024, arXiv 2402.09353.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError

PARTS = ("lora_A", "lora_B")
MAGNITUDES = "lora_magnitude_vector"  # of DoRA
_INIT = "init_lora_weights"
# The values with which PEFT leaves the base model as it is; others are pissa, olora, corda, loftq.
_UNCHANGED_BASE = (True, False, "gaussian", "eva", "orthogonal", "mica")
_TARGETS = ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern")
REQUIRED: Mapping[str, Any] = {  # options with their only supported value
    "peft_type": "LORA",
    "bias": "none",
    "alpha_pattern": {},
    "rank_pattern": {},
    **dict.fromkeys(("fan_in_fan_out", "lora_bias", "use_qalora", "ensure_weight_tying"), False),
    **dict.fromkeys(("layer_replication", "megatron_config", "velora_config"), None),
    **dict.fromkeys(("target_parameters", "trainable_token_indices"), None),
    **dict.fromkeys(("alora_invocation_tokens", "use_bdlora", "kasa_config"), None),
    **dict.fromkeys(("arrow_config", "monteclora_config"), None),
}
READ = (
    *("r", "lora_alpha", "use_rslora", "use_dora", "modules_to_save", _INIT, *_TARGETS),
    *("base_model_name_or_path", "revision", "task_type"),  # with which the base model is found
)
IGNORED = (  # have no effect after training, or only with a value of REQUIRED that is refused
    *("auto_mapping", "inference_mode", "peft_version", "runtime_config", "lora_dropout"),
    *("loftq_config", "eva_config", "corda_config", "lora_ga_config"),
    *("megatron_core", "qalora_group_size"),
)


@dataclass(frozen=True)
class PeftOptions:
    """Options of a LoRA.

    scale: of the product of its matrices. parts: names of its tensors for a matrix. saved: names
    of the modules that were trained as a whole. targets: names of the adapted modules, or the ends
    of their names; () for all, and for a pattern, because PEFT matches that with names that
    transformers may have changed. excluded: the same for modules without an adapter. layers:
    indices of the adapted layers; () for all. layer_lists: patterns of the names of the lists of
    layers.
    """

    scale: float
    parts: Sequence[str]
    saved: Sequence[str]
    targets: Sequence[str]
    excluded: Sequence[str]
    layers: Sequence[int]
    layer_lists: Sequence[str]

    @classmethod
    def read(cls, options: JsonConfig) -> "PeftOptions":
        """Read the options; raises ModelError for one that is not supported."""
        for key, value in REQUIRED.items():
            options.require(key, value)
        options.refuse_unknown({*REQUIRED, *READ, *IGNORED})
        if (initial := options.get(_INIT)) not in (None, *_UNCHANGED_BASE):
            raise ModelError(
                f"{options.path}: {_INIT} = {initial!r} is not supported: it changes the base "
                "model's weights; merge the adapter into them with PEFT's merge_and_unload"
            )
        rank = options.get("r", 8)
        divisor = math.sqrt(rank) if options.get("use_rslora", False) else rank
        return cls(
            scale=float(options["lora_alpha"] / divisor),
            parts=(*PARTS, MAGNITUDES) if options.get("use_dora", False) else PARTS,
            saved=options.nullable("modules_to_save", None) or (),
            targets=_names(options, "target_modules"),
            excluded=_names(options, "exclude_modules"),
            layers=_layers(options),
            layer_lists=_layer_lists(options),
        )

    def adapts(self, module: str) -> bool:
        """Whether PEFT gives a module an adapter. module: its full name in the base model."""
        if _ends(module, self.excluded) or (self.targets and not _ends(module, self.targets)):
            return False
        is_whole_name = module in self.targets  # of which PEFT does not compare the layer
        return is_whole_name or not self.layers or self._layer(module) in self.layers

    def _layer(self, module: str) -> int | None:
        patterns = [rf"(?:^|.*?\.){name}" for name in self.layer_lists] or [r".*?\.[^.]*"]
        matches = (re.match(rf"{pattern}\.(\d+)\.", module) for pattern in patterns)
        return next((int(match[1]) for match in matches if match), None)


def _names(options: JsonConfig, key: str) -> Sequence[str]:
    value = options.get(key, None) or ()
    if isinstance(value, str):
        return ()
    if not _are(str, value):
        raise options.unsupported(key, value, "a list of names, or a pattern")
    return tuple(value)


def _layers(options: JsonConfig) -> Sequence[int]:
    value = options.get("layers_to_transform", None)
    layers = () if value is None else (value,) if isinstance(value, int) else value
    if not _are(int, layers):
        raise options.unsupported("layers_to_transform", value, "a list of numbers, or a number")
    return tuple(layers)


def _layer_lists(options: JsonConfig) -> Sequence[str]:
    value = options.get("layers_pattern", None)
    names = (value,) if isinstance(value, str) and value else _names(options, "layers_pattern")
    try:
        re.compile("|".join(names))
    except re.error:
        raise options.unsupported("layers_pattern", value, "patterns of names") from None
    return names


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(value, kind) for value in values)


def _ends(module: str, names: Sequence[str]) -> bool:
    return any(f".{module}".endswith(f".{name}") for name in names)
