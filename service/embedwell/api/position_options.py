"""Options of a position scheme: the request's, completed with the served model's."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from embedwell.api.position_encoding import PositionEncoding, option_names
from embedwell.errors import BadRequest
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Rotary,
    Scaling,
    Scheme,
    Sinusoidal,
    TransformerXL,
)

Options = Mapping[str, Any]
"""Maps names to the options of a request; absent options are the model's, or defaults."""


def resolve_encoding(
    config: EncoderConfig,
    name: str | None,
    layer: int | None,
    positions: tables.Ints,
    options: Options,
) -> PositionEncoding:
    """Complete a request's scheme and options with the model's; raises BadRequest.

    name: the scheme's name. Default: the model's scheme.
    layer: 0 for the input, 1 … L for the attention of that layer. Default: the first with the
        scheme.
    """
    # Models of the family mpnet have the relative scheme under the name mpnet.
    sought = "relative" if name == config.family == "mpnet" else name
    model_scheme = _model_scheme(config, sought, layer)
    is_model_scheme = name in (None, model_scheme.name, config.family)
    name = name or model_scheme.name
    scheme = model_scheme if is_model_scheme else _default_scheme(config, name)
    if foreign := options.keys() - {*option_names(name, _scaling_kind(scheme, options))}:
        option = min(foreign)
        raise BadRequest(
            f"scheme {name!r} has no option {option!r} with these settings; leave it out",
            param=option,
        )
    scheme = _apply_options(scheme, options, config.max_positions)
    bidirectional = options.get("bidirectional", True)
    encoding = PositionEncoding(
        name=name,
        scheme=scheme,
        positions=positions,
        dim=options.get("dim", _default_dim(scheme, config)),
        heads=options.get("heads", config.num_heads),
        causal=options.get("causal", is_model_scheme and config.causal),
        bidirectional=bidirectional,
        trained=is_model_scheme and scheme == model_scheme and bidirectional,
        length=options.get("length", int(positions.max()) + 1),
    )
    _check(scheme, encoding)
    return encoding


def _model_scheme(config: EncoderConfig, name: str | None, layer: int | None) -> Scheme:
    schemes = [config.input_positions, *(config.scheme(i) for i in range(config.num_layers))]
    if layer is None:
        matches = (s for s in schemes if (s.name == name if name else s.name != Scheme.name))
        return next(matches, Scheme())
    if layer > config.num_layers:
        raise BadRequest(
            f"layer is {layer}, but the model has {config.num_layers} layers", param="layer"
        )
    if name not in (None, schemes[layer].name):
        raise BadRequest(
            f"scheme is {name!r}, but layer {layer} has the scheme {schemes[layer].name!r}; leave "
            "one out",
            param="layer",
        )
    return schemes[layer]


def _default_scheme(config: EncoderConfig, name: str) -> Scheme:
    schemes = {
        "none": Scheme(),
        "sinusoidal": Sinusoidal(),
        "rotary": Rotary(dim=config.head_size),
        "alibi": Alibi(),
        "relative": Buckets(),
        "mpnet": Buckets(),
        "disentangled": Disentangled(buckets=256, max_distance=512),
        "transformer_xl": TransformerXL(),
    }
    if name not in schemes:
        raise BadRequest(
            f"scheme {name!r} needs a model with a trained position table, which this one has not",
            param="scheme",
        )
    return schemes[name]


def _scaling_kind(scheme: Scheme, options: Options) -> str:
    default = scheme.scaling.kind if isinstance(scheme, Rotary) else "default"
    return str(options.get("scaling", default))


def _default_dim(scheme: Scheme, config: EncoderConfig) -> int:
    if isinstance(scheme, Rotary):
        return scheme.dim
    return config.hidden_size if isinstance(scheme, TransformerXL) else config.embedding_size


def _apply_options(scheme: Scheme, options: Options, max_positions: int) -> Scheme:
    names = {field.name for field in fields(scheme)} - {"scaling"}
    scheme = replace(scheme, **{name: options[name] for name in options.keys() & names})
    if not isinstance(scheme, Rotary):
        return scheme
    if options.keys() & {
        "dim",
        "base",
        "scaling",
    }:  # the stored frequencies were computed with other options
        scheme = replace(scheme, frequencies=())
    return replace(scheme, scaling=_scaling(scheme.scaling, options, max_positions))


def _scaling(model_scaling: Scaling, options: Options, max_positions: int) -> Scaling:
    kind = options.get("scaling", model_scaling.kind)
    scaling = model_scaling
    if kind != model_scaling.kind:
        if kind != "default" and "factor" not in options:
            raise BadRequest(f"scaling {kind!r} needs the field factor", param="factor")
        scaling = Scaling(kind=kind, original=max_positions)
        if kind == "llama3":
            scaling = replace(scaling, fast=4.0, slow=1.0)
        if kind == "yarn":
            scaling = replace(scaling, magnitude=tables.yarn_magnitude(options["factor"]))
    names = {field.name for field in fields(Scaling)} - {"kind"}
    return replace(scaling, **{name: options[name] for name in options.keys() & names})


def _check(scheme: Scheme, encoding: PositionEncoding) -> None:
    """Raise BadRequest for options, requested or default, with which no table can be computed."""
    match scheme:
        case Rotary(scaling=scaling):
            min_dim = 4 if scaling.kind == "dynamic" else 2
            if encoding.dim % 2 or encoding.dim < min_dim:
                raise BadRequest(
                    f"dim is {encoding.dim}, but rotary needs an even number of at least {min_dim}",
                    param="dim",
                )
            if scaling.kind == "longrope" and encoding.dim != 2 * len(scaling.long):
                raise BadRequest(
                    f"dim is {encoding.dim}, but the model's scaling needs {2 * len(scaling.long)}",
                    param="dim",
                )
            if scaling.kind in ("llama3", "yarn") and scaling.fast <= scaling.slow:
                raise BadRequest("fast must be greater than slow", param="fast")
        case TransformerXL() if encoding.dim % 2:
            raise BadRequest(
                f"dim is {encoding.dim}, but transformer_xl needs an even number", param="dim"
            )
        case Buckets(buckets=buckets, max_distance=far) if buckets < 4 or far <= buckets // 2:
            raise BadRequest("max_distance must be greater than half of buckets", param="buckets")
        case Disentangled(buckets=buckets, max_distance=far) if buckets:
            if buckets < 4 or far <= buckets // 2 + 1:
                raise BadRequest(
                    "max_distance must be greater than half of buckets", param="buckets"
                )
