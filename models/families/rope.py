"""Rotary settings as config.json has them, in the keys of today and of older releases."""

from models.config.json_config import JsonConfig
from models.positions import tables
from models.positions.schemes import Rotary, Scaling

_KINDS = ("default", "linear", "dynamic", "yarn", "llama3")


def rotary(
    raw: JsonConfig,
    head_size: int,
    *,
    base: float = 10_000.0,
    kind: str = "",
    share: float | None = None,
) -> Rotary:
    """The scheme that config.json asks for.

    base: where it gives none. kind: of layer, where the file tells the settings of several; the
    keys beside them then count only as `base`. share: of a head's features that is turned unless
    the file says another; None for all of them, whatever it says, as most families do.

    Raises ModelError for a scaling that is not implemented.
    """
    given = _given(raw, kind)
    scaling = given.get("rope_type", given.get("type", "default"))
    if scaling not in _KINDS:
        raise given.refusal("rope_type", scaling, _KINDS)
    return Rotary(
        dim=_turned(raw, given, head_size, share, scaling),
        base=float(given.get("rope_theta", base if kind else raw.get("rope_theta", base))),
        scaling=Scaling() if scaling == "default" else _scaling(raw, scaling, given),
    )


def _given(raw: JsonConfig, kind: str) -> JsonConfig:
    # Of both keys transformers takes the older one; where settings are of kinds of layers, it
    # writes that over them.
    scaling, parameters = raw.nested("rope_scaling"), raw.nested("rope_parameters")
    if not kind:
        return scaling if raw.get("rope_scaling", {}) else parameters
    own = parameters.get(kind, {})
    return scaling.over(own) if raw.get("rope_scaling", {}) else parameters.nested(kind)


def _turned(
    raw: JsonConfig, given: JsonConfig, head_size: int, share: float | None, scaling: str
) -> int:
    if share is not None:
        return int(head_size * given.get("partial_rotary_factor", share))
    stated = given.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
    if scaling != "default" and stated != 1:  # transformers fails at the first text
        raise raw.refusal("partial_rotary_factor", stated, f"1.0 beside {scaling!r}")
    return head_size


def _scaling(raw: JsonConfig, kind: str, given: JsonConfig) -> Scaling:
    longest = raw["max_position_embeddings"]
    original = given.get("original_max_position_embeddings", longest)
    factor = float(given.get("factor", longest / original))
    if kind == "llama3":
        fast, slow = given["high_freq_factor"], given["low_freq_factor"]
        return Scaling(kind=kind, factor=factor, original=original, fast=fast, slow=slow)
    if kind == "yarn":
        return Scaling(
            kind=kind,
            factor=factor,
            original=original,
            magnitude=_magnitude(factor, given),
            fast=given.get("beta_fast", 32.0),
            slow=given.get("beta_slow", 1.0),
            whole=given.get("truncate", True),
        )
    return Scaling(kind=kind, factor=factor, original=longest)


def _magnitude(factor: float, given: JsonConfig) -> float:
    if (told := given.get("attention_factor")) is not None:
        return float(told)
    some, all_ = given.get("mscale"), given.get("mscale_all_dim")
    if some and all_:
        return tables.magnitude(factor, some) / tables.magnitude(factor, all_)
    return tables.magnitude(factor)
