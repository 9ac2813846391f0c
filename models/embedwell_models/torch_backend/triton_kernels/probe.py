"""The smallest kernel, which shows whether Triton can compile and launch one."""

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def store_one_kernel(out: tl.tensor) -> None:
    """Store the number 1."""
    tl.store(out, 1.0)


def launch(device: torch.device) -> torch.Tensor:
    """Return the number 1, which a kernel has stored: (1,); raises Triton's errors."""
    out = torch.zeros(1, device=device)
    store_one_kernel[(1,)](out)
    return out
