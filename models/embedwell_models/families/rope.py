"""RoPE settings in config.json, under the current and the older keys."""

from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary, Scaling

_KINDS = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
_ORIGINAL = "original_max_position_embeddings"


def rotary(
    options: JsonConfig,
    head_size: int,
    *,
    base: float = 10_000.0,
    kind: str = "",
    share: float | None = None,
) -> Rotary:
    """Read the rotary scheme of config.json.

    base: the default base. kind: the kind of layer if the file has settings for several kinds; of
    the other keys only `base` is then read. share: default share of a head's features that are
    rotated; None to rotate all features in any case, as in most families.

    Raises ModelError for a scaling that is not supported.
    """
    settings = _settings(options, kind)
    scaling = settings.get("rope_type", settings.get("type", "default"))
    if scaling not in _KINDS:
        raise settings.unsupported("rope_type", scaling, _KINDS)
    dim = _rotated_features(options, settings, head_size, share, scaling)
    others = options.without(_ORIGINAL) if kind else options
    return Rotary(
        dim=dim,
        base=float(settings.get("rope_theta", base if kind else options.get("rope_theta", base))),
        scaling=Scaling() if scaling == "default" else _scaling(others, scaling, settings, dim),
    )


def original_positions(options: JsonConfig, settings: JsonConfig) -> int:
    """Return the maximum number of tokens of a text in training.

    The key next to the settings has priority over the key inside them, as in transformers.
    """
    nested = settings.get(_ORIGINAL, options["max_position_embeddings"])
    positions: int = options.get(_ORIGINAL, nested)
    return positions


def _settings(options: JsonConfig, kind: str) -> JsonConfig:
    # As in transformers, the older key has priority, and overrides settings by kind of layer.
    scaling, parameters = options.nested("rope_scaling"), options.nested("rope_parameters")
    if not kind:
        return scaling if options.get("rope_scaling", {}) else parameters
    own = parameters.get(kind, {})
    return (
        scaling.with_defaults(own) if options.get("rope_scaling", {}) else parameters.nested(kind)
    )


def _rotated_features(
    options: JsonConfig, settings: JsonConfig, head_size: int, share: float | None, scaling: str
) -> int:
    if share is not None:
        return int(head_size * settings.get("partial_rotary_factor", share))
    stated = settings.get("partial_rotary_factor", options.get("partial_rotary_factor", 1.0))
    if scaling != "default" and stated != 1:  # transformers fails at the first text
        raise options.unsupported("partial_rotary_factor", stated, f"1.0 with {scaling!r}")
    return head_size


def _scaling(options: JsonConfig, kind: str, settings: JsonConfig, dim: int) -> Scaling:
    max_positions, original = (
        options["max_position_embeddings"],
        original_positions(options, settings),
    )
    factor = float(settings.get("factor", max_positions / original))
    if kind == "longrope":
        return _longrope(settings, factor, original, dim // 2)
    if kind == "llama3":
        fast, slow = settings["high_freq_factor"], settings["low_freq_factor"]
        return Scaling(kind=kind, factor=factor, original=original, fast=fast, slow=slow)
    if kind == "yarn":
        return Scaling(
            kind=kind,
            factor=factor,
            original=original,
            magnitude=_yarn_magnitude(factor, settings),
            fast=settings.get("beta_fast", 32.0),
            slow=settings.get("beta_slow", 1.0),
            whole=settings.get("truncate", True),
        )
    return Scaling(kind=kind, factor=factor, original=max_positions)


def _longrope(settings: JsonConfig, factor: float, original: Any, pairs: int) -> Scaling:
    if type(original) is not int or original < 2:
        raise settings.unsupported(_ORIGINAL, original, "a whole number above 1")
    short, long = (tuple(settings[name]) for name in ("short_factor", "long_factor"))
    if not len(short) == len(long) == pairs:
        raise settings.unsupported(
            "short_factor, long_factor",
            f"{len(short)}, {len(long)} numbers",
            f"{pairs} in each, by the head size and partial_rotary_factor",
        )
    magnitude = settings.get("attention_factor", tables.longrope_magnitude(factor, original))
    return Scaling(
        kind="longrope",
        factor=factor,
        original=original,
        magnitude=float(magnitude),
        short=short,
        long=long,
    )


def _yarn_magnitude(factor: float, settings: JsonConfig) -> float:
    if (stated := settings.get("attention_factor")) is not None:
        return float(stated)
    mscale, mscale_all = settings.get("mscale"), settings.get("mscale_all_dim")
    if mscale and mscale_all:
        return tables.yarn_magnitude(factor, mscale) / tables.yarn_magnitude(factor, mscale_all)
    return tables.yarn_magnitude(factor)
