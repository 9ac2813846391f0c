"""Position encodings: the options of a request, completed with the model's, and their tables."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell.errors import BadRequest
from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import (
    Alibi,
    Buckets,
    Disentangled,
    Learned,
    Rotary,
    Scaling,
    Scheme,
    Sinusoidal,
    TransformerXL,
)

_SCHEME_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "sinusoidal": ("dim", "base"),
    "learned": (),
    "rotary": ("dim", "base", "interleaved", "scaling"),
    "alibi": ("heads", "steepest", "causal"),
    "relative": ("buckets", "max_distance", "bidirectional"),
    "mpnet": ("buckets", "max_distance", "bidirectional"),
    "disentangled": ("buckets", "max_distance"),
    "transformer_xl": ("dim", "base"),
}
_SCALING_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original", "length"),
    "ntk": ("factor",),
    "yarn": ("factor", "original", "magnitude", "fast", "slow", "whole"),
    "llama3": ("factor", "original", "fast", "slow"),
    "longrope": ("original", "length", "magnitude"),
}

PositionOptions = Mapping[str, Any]
"""Maps names to the options of a request; absent options are the model's, or defaults."""

PositionTables = dict[str, npt.NDArray[Any]]
"""The arrays of a scheme by their names: vectors (P, dim), buckets (P, P), bias (H, P, P)."""


@dataclass(frozen=True)
class PositionEncoding:
    """A position scheme at P positions.

    dim: dimensions of the vectors.
    heads, causal: shape of the bias that is added to attention scores.
    bidirectional: whether keys before and after a query have different buckets.
    trained: whether the model was trained with exactly this scheme.
    length: tokens of the text, for dynamic scaling and LongRoPE.
    """

    name: str
    scheme: Scheme
    positions: tables.Ints
    dim: int
    heads: int
    causal: bool
    bidirectional: bool
    trained: bool
    length: int

    @property
    def parameters(self) -> dict[str, int | float | bool | str | None]:
        """Return every option of the scheme with its value."""
        values: dict[str, Any] = {**vars(self), **vars(self.scheme)}
        scaling = "default"
        if isinstance(self.scheme, Rotary):
            scaling = self.scheme.scaling.kind
            values |= {**vars(self.scheme.scaling), "scaling": scaling}
        return {option: values[option] for option in option_names(self.name, scaling)}

    @property
    def value_bound(self) -> int:
        """Return an upper bound for the numbers in the response and in intermediate arrays."""
        rows = len(self.positions)
        match self.scheme:
            case Alibi():
                return rows * rows * self.heads
            case Buckets():
                return rows * rows * (1 + self.heads * self.trained)
            case Disentangled():
                return rows * rows
            case TransformerXL():
                distances = 2 * int(np.ptp(self.positions)) + 1
                return max(rows * rows, min(rows * rows, distances) * self.dim)
            case Learned() | Sinusoidal() | Rotary():
                return rows * self.dim
        return 0


def option_names(scheme: str, scaling: str = "default") -> tuple[str, ...]:
    """List the options of a scheme, including those of its scaling if it is rotary."""
    return (*_SCHEME_OPTIONS[scheme], *_SCALING_OPTIONS[scaling])


def resolve_encoding(
    config: EncoderConfig,
    name: str | None,
    layer: int | None,
    positions: tables.Ints,
    options: PositionOptions,
) -> PositionEncoding:
    """Complete a request's scheme and options with the model's; raises BadRequest.

    name: the scheme's name. Default: the model's scheme.
    layer: 0 for the input, 1 … L for the attention of that layer. Default: the first with the
        scheme.
    """
    sought = name and families.named(config.family).scheme_names.get(name, name)
    model_scheme = _model_scheme(config, sought, layer)
    is_model_scheme = sought in (None, model_scheme.name)
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
        heads=options.get("heads", config.attention.heads),
        causal=options.get("causal", is_model_scheme and config.causal),
        bidirectional=bidirectional,
        trained=is_model_scheme and scheme == model_scheme and bidirectional,
        length=options.get("length", int(positions.max()) + 1),
    )
    _check_options(scheme, encoding)
    return encoding


def _model_scheme(config: EncoderConfig, name: str | None, layer: int | None) -> Scheme:
    schemes = [config.input_positions, *(layer.positions for layer in config.layers)]
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
        "rotary": Rotary(dim=config.attention.head_size),
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


def _scaling_kind(scheme: Scheme, options: PositionOptions) -> str:
    default = scheme.scaling.kind if isinstance(scheme, Rotary) else "default"
    return str(options.get("scaling", default))


def _default_dim(scheme: Scheme, config: EncoderConfig) -> int:
    if isinstance(scheme, Rotary):
        return scheme.dim
    return config.hidden_size if isinstance(scheme, TransformerXL) else config.embedding_size


def _apply_options(scheme: Scheme, options: PositionOptions, max_positions: int) -> Scheme:
    names = {field.name for field in fields(scheme)} - {"scaling"}
    scheme = replace(scheme, **{name: options[name] for name in options.keys() & names})
    if not isinstance(scheme, Rotary):
        return scheme
    # The stored frequencies were computed with other options.
    if options.keys() & {"dim", "base", "scaling"}:
        scheme = replace(scheme, frequencies=())
    return replace(scheme, scaling=_scaling(scheme.scaling, options, max_positions))


def _scaling(model_scaling: Scaling, options: PositionOptions, max_positions: int) -> Scaling:
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


def _check_options(scheme: Scheme, encoding: PositionEncoding) -> None:
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


def compute_tables(encoding: PositionEncoding) -> PositionTables:  # noqa: PLR0911 - a scheme each
    """Compute the tables of a scheme; none for one that a model has trained, or without any."""
    positions, dim = encoding.positions, encoding.dim
    match encoding.scheme:
        case Sinusoidal() as scheme:
            return {"vectors": tables.sinusoidal_of(scheme, positions, dim)}
        case Rotary() as scheme:
            columns = np.arange(dim)
            halves = np.stack(np.split(columns, 2), 1)
            pairs = columns.reshape(-1, 2) if scheme.interleaved else halves
            cos, sin = tables.rotary(positions, scheme, encoding.length)
            return {"pairs": pairs, "cos": cos, "sin": sin}
        case Alibi(steepest=steepest):
            slopes = tables.alibi_slopes(encoding.heads, steepest)
            bias = tables.alibi_bias(positions, slopes, encoding.causal)
            return {"slopes": slopes, "bias": bias}
        case Buckets(buckets=buckets, max_distance=far):
            distances = tables.relative_positions(positions)
            return {"buckets": tables.t5_buckets(distances, buckets, far, encoding.bidirectional)}
        case Disentangled(buckets=buckets, max_distance=far, span=span):
            distances = -tables.relative_positions(positions)
            indices = tables.deberta_buckets(distances, buckets, far)
            return {"buckets": indices.clip(-span, span - 1)}
        case TransformerXL(base=base):
            distances = np.unique(-tables.relative_positions(positions))
            return {"distances": distances, "vectors": tables.transformer_xl(distances, dim, base)}
    return {}
