"""The encoder in compiled code: one call for the whole pass."""

import re
from collections.abc import Sequence
from ctypes import addressof, c_int64

import numpy as np
import torch
from torch import Tensor

from models.checkpoint.weights import Weights
from models.config.encoder_config import EncoderConfig
from models.cpu_backend.abi import Bias, Norm, Pass, Rotation, Shape, Tables
from models.cpu_backend.layer_weights import NORMS, Stack
from models.cpu_backend.prepack import PANEL
from models.cpu_backend.rope_cache import Turns
from models.encoder.batch import Batch
from models.encoder.pooling import POOLINGS, pool
from models.encoder.position_hooks import Positions
from models.encoder.sequence_layout import Packing
from models.positions.schemes import Alibi, Buckets, Rotary, Scheme
from models.torch_backend.encoder import Embeddings
from models.torch_backend.linear import ACTIVATIONS
from models.vectors import Floats

_POOLINGS = (*POOLINGS,)  # as kernels/pool.h numbers them
_TENSORS = {
    *("token_table", "position_table", "segment_table", "bias_table", "norm", "final_norm"),
    *("query", "key", "value", "output", "gate", "up", "down", "query_norm", "key_norm"),
    *("attention_norm", "ffn_norm", "attention_exit_norm", "ffn_exit_norm"),
}


_Rotations = Rotation * 2  # null ones turn nothing


class NativeEncoder:
    """An encoder that keeps float32, and multiplies in the precision that it is packed in."""

    def __init__(self, embeddings: Embeddings, stack: Stack, positions: Positions) -> None:
        """positions: of the attention, in the layers that see the whole text."""
        config, self._positions = embeddings.config, positions
        self._embeddings, self._stack, self._width = embeddings, stack, config.hidden_size
        schemes = (config.positions, config.local)  # by Layer.rotation
        self._turns = [Turns(one, config.head_size) for one in schemes if isinstance(one, Rotary)]
        table = embeddings.positions.table
        # Every text is of the first segment: a constant, added once.
        nothing = torch.zeros(1, config.hidden_size)
        self._places = (nothing if table is None else table) + embeddings.segment
        self._tables = Tables(
            tokens=embeddings.tokens.data_ptr(),
            positions=self._places.data_ptr(),
            step=0 if table is None else config.hidden_size,
            padding=embeddings.positions.padding,
            scale=config.token_scale,
            norm=stack.first,
        )
        self._shape = Shape(
            width=config.hidden_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            size=config.head_size,
            inner=config.intermediate_size,
            arrangement=list(NORMS).index(config.arrangement),
            activation=ACTIVATIONS[config.activation].number,
            gated=config.gated,
            causal=config.causal,
            scale=config.scale,
            eps=config.norm_eps,
        )

    @property
    def max_concurrent_batches(self) -> int:
        """One for each thread: forward passes share read-only memory alone."""
        return torch.get_num_threads()

    @property
    def prefetch_depth(self) -> int:
        """None: there is no device beside the CPU."""
        return 0

    def states(self, batch: Batch, count: int) -> Floats:
        """Hidden states after so many layers: (T, D)."""
        found = self._states(batch)
        self._run(batch, count=count, states=found.ctypes.data)
        return found

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """The poolings of each sequence's last hidden states, side by side: (B, poolings * D)."""
        wanted = (c_int64 * len(poolings))(*map(_POOLINGS.index, poolings))
        found = np.empty((len(batch.lengths), len(poolings) * self._width), dtype=np.float32)
        states = self._states(batch) if batch.skips.any() else None
        self._run(
            batch,
            count=len(self._stack.layers),
            poolings=addressof(wanted),
            pooled=len(poolings),
            vectors=found.ctypes.data,
            states=0 if states is None else states.ctypes.data,
        )
        if states is not None:  # the kernels pool whole texts
            partly = batch.skips > 0
            found[partly] = _pooled(states, batch, poolings)[partly]
        return found

    def warm(self) -> None:
        """Nothing is built for a batch."""

    def _states(self, batch: Batch) -> Floats:
        return np.empty((len(batch.ids), self._width), dtype=np.float32)

    def _run(self, batch: Batch, count: int, **wanted: int) -> None:
        stack, longest = self._stack, int(batch.lengths.max())
        bias, turns = self._bias(longest), [each.upto(longest) for each in self._turns]
        rotations = _Rotations(*map(_rotation, turns))
        places = batch.positions if turns else batch.ids  # which are not read as such
        last = stack.last if count == len(stack.layers) else Norm()
        call = Pass(
            shape=addressof(self._shape),
            layers=addressof(stack.layers),
            count=count,
            last=addressof(last),
            tables=addressof(self._tables),
            bias=Bias(None if bias is None else bias.data_ptr(), longest),
            rotations=addressof(rotations),
            places=places.ctypes.data,
            ids=batch.ids.ctypes.data,
            lengths=batch.lengths.ctypes.data,
            sequences=len(batch.lengths),
            **wanted,
        )
        stack.run(call)

    def _bias(self, reach: int) -> Tensor | None:
        offsets = self._positions.bias(reach)
        if offsets is None:
            return None
        # Whole vectors are read: the last may go past the table's end.
        return torch.nn.functional.pad(offsets.to(torch.float32).flatten(), (0, PANEL))


def _rotation(turns: Tensor) -> Rotation:
    cos, sin = turns
    return Rotation(cos.data_ptr(), sin.data_ptr())


def _pooled(states: Floats, batch: Batch, poolings: Sequence[str]) -> Floats:
    packing, skips = Packing(batch.lengths.tolist(), torch.device("cpu")), batch.skips
    found: Floats = pool(
        torch.from_numpy(states), packing, poolings, torch.from_numpy(skips)
    ).numpy()
    return found


def fits(config: EncoderConfig, weights: Weights) -> bool:
    """Whether the kernels know how to compute a model."""
    tensors = {re.sub(r"^layers\.\d+\.|\.(weight|bias)$", "", name) for name in weights}
    return tensors <= _TENSORS and all(
        (
            config.hidden_size % 64 == config.intermediate_size % 64 == config.head_size % 32 == 0,
            config.num_heads * config.head_size % 64 == 0,
            config.embedding_size == config.hidden_size,
            config.distinct_layers == config.num_layers,
            config.arrangement in NORMS,
            not config.softcap,
            _known(config.positions),
            config.local is None or (_rotary(config.positions) and _rotary(config.local)),
            all(
                len(weight) == config.head_size
                for name, weight in weights.items()
                if name.endswith(("query_norm.weight", "key_norm.weight"))
            ),
        )
    )


def _known(scheme: Scheme) -> bool:
    return type(scheme) in (Scheme, Alibi, Buckets) or _rotary(scheme)


def _rotary(scheme: Scheme) -> bool:
    # A dynamic one turns each text in its own way.
    return isinstance(scheme, Rotary) and scheme.scaling.kind != "dynamic"
