"""Specification of one layer of an encoder, which the builders of every backend read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from embedwell_models.positions.schemes import Rotary, Scheme

FUSED_MATRICES: Mapping[str, tuple[str, ...]] = {  # our fused matrix -> the checkpoint's
    "qkv": ("query", "key", "value"),
    "query": ("query",),
    "key_value": ("key", "value"),
    "first_qkv": ("first_query", "first_key", "first_value"),
    "attention_gate": ("attention_gate",),
    "output": ("output",),
    "gate": ("gate",),
    "up": ("up",),
    "down": ("down",),
    "adapter_up": ("adapter_up",),
    "adapter_down": ("adapter_down",),
}
ACTIVATIONS: Mapping[str, str] = {  # of networks: name in config.json -> our name
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "gelu_sigmoid": "gelu_sigmoid",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """Attention of a layer.

    kv_heads: number of key and value heads, each shared by several query heads. head_size: number
    of features of a head.
    positions: scheme of the positions. window: number of visible tokens on each side; None for the
    whole text. window_after: the same after the token; None if it does not differ.
    scale: factor of scores, usually 1 / sqrt(head_size). softcap: scores become softcap *
    tanh(scores / softcap). normed_values: whether each value head is normalised, without a weight.
    gated: whether results are multiplied by the sigmoid of a linear projection (Qiu et al. 2025,
    arXiv 2505.06708).
    global_first: whether all tokens see the first token, which sees all of them by matrices of its
    own, as in classifiers of Longformer.
    builder: function that builds a family's own attention on torch, as "module:function" of the
    builder of layers, the layer's name and this spec; "" for the common one.

    Raises ValueError if kv_heads do not divide heads, and for features that the scheme cannot pair.
    """

    heads: int
    kv_heads: int
    head_size: int
    positions: Scheme = field(default_factory=Scheme)
    window: int | None = None
    window_after: int | None = None
    scale: float
    softcap: float = 0.0
    normed_values: bool = False
    gated: bool = False
    global_first: bool = False
    builder: str = ""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Our names of the tensors that only layers with this kind of attention have."""
        gate = _GATE if self.gated else ()
        return (*_ATTENTION, *gate, *(_OF_FIRST if self.global_first else ()))

    def matrices(self, width: int) -> dict[str, tuple[int, int]]:
        """Return the shapes (out, in) of the matrices, for states of `width` features."""
        query, key = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "query": (query, width),
            "key": (key, width),
            "value": (key, width),
            "output": (width, query),
            **(dict.fromkeys(_GATE, (query, width)) if self.gated else {}),
            **(dict.fromkeys(_OF_FIRST, (query, width)) if self.global_first else {}),
        }

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.kv_heads} key heads do not divide {self.heads} heads")
        if isinstance(self.positions, Rotary):
            _check_pairs(self.positions, self.head_size)


@dataclass(frozen=True, kw_only=True)
class ConvolutionSpec:
    """Gated convolution over `width` tokens in place of attention. builder: see AttentionSpec."""

    builder: ClassVar = "embedwell_rare.torch_layers.mixers:short_convolution"
    tensors: ClassVar = ("convolution_input", "convolution", "convolution_output")
    width: int

    def matrices(self, width: int) -> dict[str, tuple[int, int]]:
        """Return the shapes of the matrices, for states of `width` features."""
        return {
            "convolution_input": (3 * width, width),
            "convolution": (width, self.width),
            "convolution_output": (width, width),
        }


@dataclass(frozen=True, kw_only=True)
class DeltaNetSpec:
    """Gated DeltaNet in place of attention (Yang et al. 2024, arXiv 2412.06464).

    heads: number of heads of values. key_heads: number of heads of queries and keys, each shared by
    several heads of values. size, key_size: numbers of features of such heads. width: number of
    tokens of the causal convolution of queries, keys and values. builder: see AttentionSpec.

    Raises ValueError if key_heads do not divide heads.
    """

    builder: ClassVar = "embedwell_rare.torch_layers.mixers:delta_net"
    tensors: ClassVar = (
        *("delta_input", "delta_convolution", "delta_gate", "delta_strength", "delta_decay"),
        *("delta_rate", "delta_scale", "delta_output"),
    )
    heads: int
    key_heads: int
    size: int
    key_size: int
    width: int

    def __post_init__(self) -> None:
        if self.heads % self.key_heads:
            raise ValueError(
                f"{self.key_heads} key heads of linear attention do not divide its {self.heads} "
                "value heads"
            )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features of all queries, keys and values."""
        keys = self.key_heads * self.key_size
        return keys, keys, self.heads * self.size

    def matrices(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights, for states of `width` features."""
        features, values = sum(self.sizes), self.heads * self.size
        return {
            "delta_input": (features, width),
            "delta_convolution": (features, self.width),
            "delta_gate": (values, width),
            "delta_strength": (self.heads, width),
            "delta_decay": (self.heads, width),
            "delta_rate": (self.heads,),
            "delta_scale": (self.size,),
            "delta_output": (width, values),
        }


Mixer = AttentionSpec | ConvolutionSpec | DeltaNetSpec
"""Part of a layer that mixes tokens."""


@dataclass(frozen=True, kw_only=True)
class FeedForwardSpec:
    """Feed-forward network of a layer, or a mixture of several.

    inner: number of features between its matrices; 0 for no network.
    activation: one of the values of ACTIVATIONS. gated: whether it is multiplied by a second linear
    projection (GLU).
    inner_norm_eps: epsilon of the norm of the features before the last matrix; 0 if the checkpoint
    has no such norm.
    experts: number of networks, of which each token uses `top`; 0 for a single network.
    adapter: number of features of an adapter after a single network: it reads the normalised sum of
    the network and its input, and its own sum with that has the same norm; 0 for none.
    """

    inner: int
    activation: str = "gelu"
    gated: bool = False
    inner_norm_eps: float = 0.0
    experts: int = 0
    top: int = 0
    adapter: int = 0

    @property
    def tensors(self) -> tuple[str, ...]:
        """Our names of the tensors that only layers with this kind of network have."""
        adapter = _ADAPTER if self.adapter else ()
        return _EXPERTS if self.experts else (*_SINGLE, *adapter)

    def matrices(self, width: int) -> dict[str, tuple[int, int]]:
        """Return the shapes (out, in) of the matrices, for states of `width` features."""
        up, down = (self.inner, width), (width, self.inner)
        if not self.experts:
            adapter = ((self.adapter, width), (width, self.adapter))
            return {
                **({"gate": up} if self.gated else {}),
                **{"up": up, "down": down},
                **(dict(zip(_ADAPTER, adapter, strict=True)) if self.adapter else {}),
            }
        of_experts = (self.experts * self.inner, width)
        return {
            "router": (self.experts, width),
            "experts_up": of_experts,
            "experts_down": of_experts,
            "experts": down,
        }


_ATTENTION = ("query", "key", "value", "output", "query_norm", "key_norm")
_GATE = FUSED_MATRICES["attention_gate"]
_OF_FIRST = FUSED_MATRICES["first_qkv"]
_SINGLE = ("gate", "up", "down")
_ADAPTER = ("adapter_up", "adapter_down")
_EXPERTS = ("router", "experts_up", "experts_down", "experts")
_KIND_SPECIFIC_TENSORS = {
    *(*_ATTENTION, *_GATE, *_OF_FIRST, *ConvolutionSpec.tensors, *DeltaNetSpec.tensors),
    *(*_SINGLE, *_ADAPTER, *_EXPERTS),
}


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """A layer: a mixer of tokens, then a feed-forward network.

    weights: number of the layer in the checkpoint whose weights it has, which several layers can
    share; None for a layer without numbered weights.
    mixer: None if the family's own encoder has another, such as an LSTM.
    attention_norm: whether the input or the output of the mixer is normalised.
    """

    weights: int | None
    mixer: Mixer | None = None
    feed_forward: FeedForwardSpec = FeedForwardSpec(inner=0)
    attention_norm: bool = True

    @property
    def positions(self) -> Scheme:
        """Scheme of the attention; the scheme without positions for a layer without attention."""
        return self.mixer.positions if isinstance(self.mixer, AttentionSpec) else Scheme()

    def matrices(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the matrices, for states of `width` features."""
        mixer = self.mixer.matrices(width) if self.mixer else {}
        return {**mixer, **self.feed_forward.matrices(width)}

    def has(self, tensor: str) -> bool:
        """Whether the layer has a tensor, by our name, such as 'query.weight'.

        Tensors that are not of a kind of mixer or network are in every layer.
        """
        name = tensor.partition(".")[0]
        if name == "attention_norm":
            return self.attention_norm
        own = (*(self.mixer.tensors if self.mixer else ()), *self.feed_forward.tensors)
        return name in own or name not in _KIND_SPECIFIC_TENSORS


def _check_pairs(scheme: Rotary, head_size: int) -> None:
    dim, least = scheme.dim, 4 if scheme.scaling.kind == "dynamic" else 2
    if dim % 2 or not least <= dim <= head_size:
        raise ValueError(
            f"rotary positions of {dim} features in heads of {head_size} are not supported: they "
            f"need an even number of at least {least}, and at most the size of a head; see "
            "rotary_dim, rotary_pct, partial_rotary_factor, rotary_emb_fraction, head_dim, "
            "hidden_size"
        )
    if scheme.frequencies and len(scheme.frequencies) != dim // 2:
        raise ValueError(
            f"the weights have {len(scheme.frequencies)} frequencies of rotary positions; "
            f"{dim} features in each head need {dim // 2}"
        )
