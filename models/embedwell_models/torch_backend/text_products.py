"""Products of matrices that belong to single texts."""

import torch
from torch import Tensor


def text_products(left: Tensor, right: Tensor) -> Tensor:
    """Multiply the matrices of each text: (N, H, Q, K) @ (N, H, K, L) -> (N, H, Q, L).

    right: also (H, K, L), for matrices that all texts share. On a CPU each text is multiplied by
    itself: a product of several texts may copy its operands to another layout, and so sum in
    another order.
    """
    if left.device.type != "cpu":
        return left @ right
    matrices = right.expand(len(left), *right.shape[-3:])
    return torch.stack([a @ b for a, b in zip(left, matrices, strict=True)])
