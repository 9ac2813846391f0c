"""A device where nothing is computed, so that nothing can be read from it."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")


class Sent(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that refuses computations with tensors of host and device together."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert len(_devices(args, kwargs)) < 2, func
        return func(*args, **(kwargs or {}))


class OnDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that refuses computations on the host and copies between host and device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        assert _devices(args, kwargs, found) == {META}, func
        return found


class ToHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that notes the shapes of tensors that the host receives, and gives it zeros."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") != torch.device("cpu") or _devices(args) != {META}:
            return func(*args, **kwargs)
        self.shapes.append(tuple(args[0].shape))
        return torch.zeros(args[0].shape, dtype=args[0].dtype)


def _devices(*given: Any) -> set[torch.device]:
    return {part.device for part in tree_leaves(given) if isinstance(part, Tensor)}
