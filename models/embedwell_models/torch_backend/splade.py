"""SPLADE's head on torch, for GPUs and for CPUs without kernels.

Formal et al. 2021, arXiv 2109.10086. B sequences, T tokens, D hidden size, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.splade import MaskedLMWeights, SpladeEncoder, SpladeHead
from embedwell_models.model_files.sparse import Splade
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.torch_backend.norm import LayerNorm
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import HostCopy, pair_to_tensors, side_stream
from embedwell_models.torch_backend.text_blocks import pool_by_text
from embedwell_models.vectors import Floats


class TorchSpladeHead:
    """Head of a masked language model whose logits are pooled over the tokens of a text."""

    def __init__(
        self,
        splade: Splade,
        weights: MaskedLMWeights,
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: builds the linear layers in a precision."""
        output = pair_to_tensors(weights.output)
        self.vocab_size = len(output[1])
        self._splade, self._dtype, self._device = splade, linear.dtype, device
        self._dense = self._norm = None
        if weights.dense is not None and weights.norm is not None:
            dense, norm = pair_to_tensors(weights.dense), pair_to_tensors(weights.norm)
            self._dense = linear(*dense, weights.activation, name="masked_lm.dense")
            weight, bias = (part.to(device, linear.dtype) for part in norm)
            self._norm = LayerNorm(weight, bias, weights.eps)
        self._logits = self._maximum = None
        if splade.pooling == "max":
            self._maximum = linear.row_maximum(*output, name="masked_lm.output")
        else:
            self._logits = linear(*output, name="masked_lm.output")

    @torch.inference_mode()
    def __call__(self, states: Floats, lengths: Sequence[int]) -> Floats:
        """Pool the states of B sequences: (T, D) -> (B, V)."""
        rows = torch.from_numpy(states).to(self._device, self._dtype)
        weights: Floats = self.pool(rows, SequenceLayout(lengths, self._device)).cpu().numpy()
        return weights

    def pool(self, states: Tensor, layout: SequenceLayout) -> Tensor:
        """Pool the states of B sequences on their device: (rows, D) -> (B, V)."""
        x = states[: layout.tokens]
        if self._dense is not None and self._norm is not None:
            x = self._norm(self._dense(x))
        if self._maximum is not None:  # log(1 + x) grows with x, so the maximum comes first
            pooled = self._log(self._maximum(x, layout))
        else:
            pooled = pool_by_text(x, layout, self._log_of_logits, "sum")
        # relu and max may hide values that are not finite.
        finite = torch.segment_reduce(
            x.isfinite().all(dim=1).float(), "min", lengths=layout.lengths, axis=0, unsafe=True
        )
        return pooled.masked_fill(finite[:, None] == 0, torch.nan).float()

    def _log_of_logits(self, rows: Tensor) -> Tensor:
        assert self._logits is not None
        return self._log(self._logits(rows).relu())

    def _log(self, activations: Tensor) -> Tensor:
        logs = activations.float().log1p()
        return logs.log1p() if self._splade.log_twice else logs


class DeviceSpladeEncoder(SpladeEncoder):
    """Encoder whose states stay on the device: the host receives only the weights."""

    def __init__(self, encoder: Encoder, head: SpladeHead, num_layers: int) -> None:
        """encoder, head: on torch. num_layers: the number of layers of the inner encoder."""
        super().__init__(encoder, head, num_layers)
        assert isinstance(encoder, TorchEncoder) and isinstance(head, TorchSpladeHead)
        self._states, self._torch_head = encoder, head
        self._aside = side_stream(encoder.device)

    def sparse(self, batch: Batch) -> list[SparseVector]:
        """Return the non-zero weights of the vocabulary for each of B sequences.

        The host receives their numbers in one copy, and only these weights in another.
        """
        return [vector for part in self._parts(batch) for vector in self._sparse(part)]

    @torch.inference_mode()
    def _sparse(self, batch: Batch) -> list[SparseVector]:
        computed: list[Tensor] = []

        def count(hidden: Tensor, layout: SequenceLayout) -> Tensor:
            computed.append(self._torch_head.pool(hidden, layout))
            return computed[0].count_nonzero(dim=1).float()

        ends = self._states.apply(batch, count).astype(np.int64).cumsum()
        # The device computes the weights of the next batch meanwhile.
        with torch.cuda.stream(self._aside):
            copy = HostCopy(nonzero_entries(computed[0], int(ends[-1])))
        indices, weights = copy.wait()
        columns = np.split(indices.view(np.int32), ends[:-1])
        return [*map(SparseVector, columns, np.split(weights, ends[:-1]))]

    def _weights(self, batch: Batch) -> Floats:
        return self._states.apply(batch, self._torch_head.pool)


def nonzero_entries(weights: Tensor, count: int) -> Tensor:
    """Return the columns and values of the `count` entries that are not zero: (B, V) -> (2, count).

    The columns are the bits of int32. As their number is known, the host does not wait for it.
    """
    ends = (weights != 0).flatten().cumsum(0, dtype=torch.int32)
    numbers = torch.arange(1, count + 1, dtype=torch.int32, device=weights.device)
    places = torch.searchsorted(ends, numbers)
    columns = (places % weights.shape[1]).to(torch.int32).view(torch.float32)
    return torch.stack([columns, weights.flatten().index_select(0, places)])
