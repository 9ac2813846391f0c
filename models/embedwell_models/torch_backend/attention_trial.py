"""Trial of a kernel of attention on a GPU, before a model computes with it.

A build of torch, such as ROCm's, may lack a kernel for a GPU, or ignore one of its arguments.
"""

import logging
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import (
    AttentionFunction,
    AttentionOptions,
    padded_attention,
)
from embedwell_models.torch_backend.device import CPU, current_device, failure_of
from embedwell_models.torch_backend.position_hooks import PositionHooks
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

log = logging.getLogger(__name__)

_LENGTHS = (3, 38, 20)  # with rows after them
_HEADS, _KEY_HEADS = 4, 2
_LARGEST_WINDOW = 8  # so that texts are longer
_TOLERANCE = 0.05  # several times the rounding of half precision; a wrong mask differs by about 1
_PLAIN = PositionHooks()


def attention_works(
    device: torch.device,
    attend: AttentionFunction,
    options: AttentionOptions,
    head_size: int,
    dtype: torch.dtype,
) -> bool:
    """Whether a kernel runs on a device and computes what padded attention does on the CPU.

    The log warns of one that does not. options: those of a layer, whose positions do not count.
    """
    window, after = (
        None if side is None else min(side, _LARGEST_WINDOW)
        for side in (options.window, options.window_after)
    )
    plain = replace(options, positions=_PLAIN, window=window, window_after=after)
    return _works(device, attend, plain, head_size, dtype)


@cache
def _works(
    device: torch.device,
    attend: AttentionFunction,
    options: AttentionOptions,
    head_size: int,
    dtype: torch.dtype,
) -> bool:
    def try_once() -> None:
        difference = _difference(device, attend, options, head_size, dtype)
        if not difference <= _TOLERANCE:  # or NaN
            raise RuntimeError(f"its values differ by {difference:.2g} from those of a CPU")

    failure = failure_of(try_once)
    if failure:
        name = type(attend).__name__
        log.warning("%s in %s is not used on this GPU: %s", name, dtype, failure)
    return not failure


@torch.inference_mode()
def _difference(
    device: torch.device,
    attend: AttentionFunction,
    options: AttentionOptions,
    head_size: int,
    dtype: torch.dtype,
) -> float:
    # Largest difference to padded attention in float32 on the CPU.
    noise, host = torch.Generator().manual_seed(1), SequenceLayout(_LENGTHS, CPU)
    split = [_HEADS, _KEY_HEADS, _KEY_HEADS]
    both = torch.randn(host.rows, sum(split), head_size, generator=noise).to(dtype)
    expected = padded_attention(*_heads(both.float(), split), host, options)
    with current_device(device):
        layout = SequenceLayout(_LENGTHS, device, dtype)
        mixed = attend(*_heads(both.to(device), split), layout, options)
        differences = mixed[: host.tokens].float().cpu() - expected[: host.tokens]
    return float(differences.abs().max())


def _heads(both: Tensor, split: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = torch.split(both, split, dim=1)
    return query, key, value
