"""Rotary settings as config.json has them, in the keys of today and of older releases."""

from models import tables
from models.raw import Raw
from models.schemes import Rotary, Scaling

_KINDS = ("default", "linear", "dynamic", "yarn", "llama3")


def rotary(
    raw: Raw,
    head_size: int,
    *,
    base: float = 10_000.0,
    interleaved: bool = False,
    kind: str = "",
) -> Rotary:
    """The scheme that config.json asks for.

    base: where it gives none. kind: of layer, where the file tells the settings of several.

    Raises ModelError for a scaling that is not implemented.
    """
    given = _given(raw, kind)
    scaling = given.get("rope_type", given.get("type", "default"))
    if scaling not in _KINDS:
        raise given.refusal("rope_type", scaling, _KINDS)
    share = given.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
    return Rotary(
        dim=int(head_size * share),
        base=float(given.get("rope_theta", raw.get("rope_theta", base))),
        interleaved=interleaved,
        scaling=Scaling() if scaling == "default" else _scaling(raw, scaling, given),
    )


def _given(raw: Raw, kind: str) -> Raw:
    given = raw.nested("rope_parameters" if raw.get("rope_parameters", {}) else "rope_scaling")
    return given.nested(kind) if kind in given else given


def _scaling(raw: Raw, kind: str, given: Raw) -> Scaling:
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


def _magnitude(factor: float, given: Raw) -> float:
    if (told := given.get("attention_factor")) is not None:
        return float(told)
    some, all_ = given.get("mscale"), given.get("mscale_all_dim")
    if some and all_:
        return tables.magnitude(factor, some) / tables.magnitude(factor, all_)
    return tables.magnitude(factor)
