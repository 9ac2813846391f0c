"""What a request says of a position scheme, completed by what the served model says."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from models.config.encoder_config import EncoderConfig
from models.positions import tables
from models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Recurrent,
    Rotary,
    Scaling,
    Scheme,
    Sinusoidal,
)
from service.api.position_encoding import Encoding, options
from service.errors import BadRequest

Given = Mapping[str, Any]
"""The options of a request, by their names."""


def complete(
    config: EncoderConfig, name: str | None, layer: int | None, positions: tables.Ints, given: Given
) -> Encoding:
    """The scheme of a name, by default the model's own; what is not given is the model's, too.

    layer: 0 is the input, 1 … L the attention of that layer; by default the first with the scheme.

    Raises BadRequest for an option or a number that the scheme does not have.
    """
    own = _own(config, "relative" if name == config.family == "mpnet" else name, layer)
    is_own = name in (None, own.name, config.family)
    name = name or own.name
    scheme = own if is_own else _usual(config, name)
    if foreign := given.keys() - {*options(name, _kind(scheme, given))}:
        option = min(foreign)
        raise BadRequest(f"scheme {name!r} has no option {option!r} here", param=option)
    scheme = _changed(scheme, given, config.max_positions)
    asked = Encoding(
        name=name,
        scheme=scheme,
        positions=positions,
        dim=given.get("dim", _width(scheme, config)),
        heads=given.get("heads", config.num_heads),
        causal=given.get("causal", is_own and config.causal),
        bidirectional=given.get("bidirectional", True),
        trained=is_own and scheme == own and given.get("bidirectional", True),
        length=given.get("length", int(positions.max()) + 1),
    )
    _check(scheme, asked)
    return asked


def _own(config: EncoderConfig, name: str | None, layer: int | None) -> Scheme:
    schemes = [config.table, *(config.scheme(i) for i in range(config.num_layers))]
    if layer is None:
        wanted = (s for s in schemes if (s.name == name if name else s.name != Scheme.name))
        return next(wanted, Scheme())
    if layer > config.num_layers:
        raise BadRequest(f"layer is {layer}, the model has {config.num_layers}", param="layer")
    if name not in (None, schemes[layer].name):
        raise BadRequest(f"the scheme of layer {layer} is {schemes[layer].name!r}", param="layer")
    return schemes[layer]


def _usual(config: EncoderConfig, name: str) -> Scheme:
    usual = {
        "none": Scheme(),
        "sinusoidal": Sinusoidal(),
        "rotary": Rotary(dim=config.head_size),
        "alibi": Alibi(),
        "relative": Buckets(),
        "mpnet": Buckets(),
        "disentangled": Disentangled(buckets=256, max_distance=512),
        "transformer_xl": Recurrent(),
    }
    if name not in usual:
        raise BadRequest(f"the model has no trained table, which {name!r} is", param="scheme")
    return usual[name]


def _kind(scheme: Scheme, given: Given) -> str:
    own = scheme.scaling.kind if isinstance(scheme, Rotary) else "default"
    return str(given.get("scaling", own))


def _width(scheme: Scheme, config: EncoderConfig) -> int:
    if isinstance(scheme, Rotary):
        return scheme.dim
    return config.hidden_size if isinstance(scheme, Recurrent) else config.embedding_size


def _changed(scheme: Scheme, given: Given, longest: int) -> Scheme:
    known = {field.name for field in fields(scheme)} - {"scaling"}
    changed = replace(scheme, **{name: given[name] for name in given.keys() & known})
    if not isinstance(changed, Rotary):
        return changed
    if given.keys() & {"dim", "base", "scaling"}:  # then stored ones are another scheme's
        changed = replace(changed, frequencies=())
    return replace(changed, scaling=_scaling(changed.scaling, given, longest))


def _scaling(own: Scaling, given: Given, longest: int) -> Scaling:
    kind = given.get("scaling", own.kind)
    if kind not in (own.kind, "default") and "factor" not in given:
        raise BadRequest(f"scaling {kind!r} needs a factor", param="factor")
    start = own if kind == own.kind else Scaling(kind=kind, original=longest)
    if start is not own and kind == "llama3":
        start = replace(start, fast=4.0, slow=1.0)
    if start is not own and kind == "yarn":
        start = replace(start, magnitude=tables.magnitude(given["factor"]))
    known = {field.name for field in fields(Scaling)} - {"kind"}
    return replace(start, **{name: given[name] for name in given.keys() & known})


def _check(scheme: Scheme, asked: Encoding) -> None:
    # What no table can be computed of, whether it was given so or came together so.
    match scheme:
        case Rotary(scaling=scaling):
            least = 4 if scaling.kind == "dynamic" else 2
            if asked.dim % 2 or asked.dim < least:
                raise BadRequest(f"dim is {asked.dim}; pairs of features are turned", param="dim")
            if scaling.kind in ("llama3", "yarn") and scaling.fast <= scaling.slow:
                raise BadRequest("fast must be more than slow", param="fast")
        case Recurrent() if asked.dim % 2:
            raise BadRequest(f"dim is {asked.dim}; half are sines, half cosines", param="dim")
        case Buckets(buckets=buckets, max_distance=most) if buckets < 4 or most <= buckets // 2:
            raise BadRequest("max_distance must be more than half of buckets", param="buckets")
        case Disentangled(buckets=buckets, max_distance=most) if buckets:
            if buckets < 4 or most <= buckets // 2 + 1:
                raise BadRequest("max_distance must be more than half of buckets", param="buckets")
