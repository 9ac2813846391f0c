"""RoPE settings in config.json, in the current keys and those of older releases."""

from models.config.json_config import JsonConfig
from models.positions import tables
from models.positions.schemes import Rotary, Scaling

_KINDS = ("default", "linear", "dynamic", "yarn", "llama3")


def rotary(
    options: JsonConfig,
    head_size: int,
    *,
    base: float = 10_000.0,
    kind: str = "",
    share: float | None = None,
) -> Rotary:
    """Read the rotary scheme of config.json.

    base: its default. kind: of layer, if the file has settings for several kinds; the keys beside
    them then count only as `base`. share: default of the share of a head's features that is
    rotated; None for all of them, whatever the file says, as in most families.

    Raises ModelError for a scaling that is not supported.
    """
    settings = _settings(options, kind)
    scaling = settings.get("rope_type", settings.get("type", "default"))
    if scaling not in _KINDS:
        raise settings.unsupported("rope_type", scaling, _KINDS)
    return Rotary(
        dim=_rotated_features(options, settings, head_size, share, scaling),
        base=float(settings.get("rope_theta", base if kind else options.get("rope_theta", base))),
        scaling=Scaling() if scaling == "default" else _scaling(options, scaling, settings),
    )


def _settings(options: JsonConfig, kind: str) -> JsonConfig:
    # transformers prefers the older key; if the settings are by kind of layer, the older key
    # overrides them.
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
        raise options.unsupported("partial_rotary_factor", stated, f"1.0 beside {scaling!r}")
    return head_size


def _scaling(options: JsonConfig, kind: str, settings: JsonConfig) -> Scaling:
    max_positions = options["max_position_embeddings"]
    original = settings.get("original_max_position_embeddings", max_positions)
    factor = float(settings.get("factor", max_positions / original))
    if kind == "llama3":
        fast, slow = settings["high_freq_factor"], settings["low_freq_factor"]
        return Scaling(kind=kind, factor=factor, original=original, fast=fast, slow=slow)
    if kind == "yarn":
        return Scaling(
            kind=kind,
            factor=factor,
            original=original,
            magnitude=_magnitude(factor, settings),
            fast=settings.get("beta_fast", 32.0),
            slow=settings.get("beta_slow", 1.0),
            whole=settings.get("truncate", True),
        )
    return Scaling(kind=kind, factor=factor, original=max_positions)


def _magnitude(factor: float, settings: JsonConfig) -> float:
    if (stated := settings.get("attention_factor")) is not None:
        return float(stated)
    mscale, mscale_all = settings.get("mscale"), settings.get("mscale_all_dim")
    if mscale and mscale_all:
        return tables.yarn_magnitude(factor, mscale) / tables.yarn_magnitude(factor, mscale_all)
    return tables.yarn_magnitude(factor)
