"""Count the kernels that a pass on a GPU launches, and the bytes that they read and write.

python -m deploy.gpu.launches

It needs no GPU: tensors have a shape and no numbers (torch's device meta), and Triton's kernels are
counted where they would be launched. Each reads and writes a number once.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from deploy.gpu.random_models import CONFIGS
from embedwell_models import families
from embedwell_models.checkpoint.weights import shapes_of
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.operators import FlashAttention, triton_operators
from embedwell_models.torch_backend.pooling import pool_in_kernel
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels import embedding, linear, norm, pooling, rotary

MINILM = {**CONFIGS["e5-small"], "num_hidden_layers": 6}
MODELS = {
    "MiniLM-L6": MINILM,
    "BERT-base": CONFIGS["bge-base"],
    "BERT-large": CONFIGS["bge-large"],
    "ModernBERT-base": CONFIGS["modernbert-base"],
    "Qwen3-0.6B": CONFIGS["qwen3-0.6b"],
}
"""Configurations by the names of the table."""

_META, _DTYPE = torch.device("meta"), torch.bfloat16
_TEXTS, _LENGTH = 8, 128  # of a pass; a second one has twice as many texts
_KERNELS = {
    "embed": embedding.embedding_kernel,
    "norm": norm.sum_and_norm_kernel,
    "rotate": rotary.rotary_kernel,
    "gate": linear.gated_kernel,
    "pool": pooling.pooling_kernel,
}
_IN_PLACE = {"rotate"}  # whose first argument is also written
_ROWS = {"embed": (2, 4)}  # arguments that are tables, of which only the rows of tokens are read
_NAMES = {"_addmm_activation": "linear with GELU"}
_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty"})


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that counts the kernels of torch's operators and of Triton, and their bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts, self.bytes = Counter[str](), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name, read, written = func.overloadpacket.__name__, _tensors(args, kwargs), _tensors(result)
        views = {_memory(each) for each in written} <= {_memory(each) for each in read}
        in_place = name.endswith("_")
        on_device = all(each.device == _META for each in read)
        if on_device and name not in _ALLOCATIONS and (in_place or not views):
            self.add(_NAMES.get(name, name.strip("_")), [*read, *written])
        return result

    def add(self, name: str, tensors: Sequence[Tensor]) -> None:
        """Count a kernel that reads or writes each of some tensors once."""
        self.counts[name] += 1
        self.bytes += sum(map(_size, {id(each): each for each in tensors}.values()))

    def attention(self, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Any:
        """Count FlashAttention, which reads keys and values of other tokens from the cache."""
        with _disable_current_modes():
            mixed = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        self.add("attention", [query, key, value, mixed])
        return (mixed,)

    def launch(self, name: str, *args: Any, **_: Any) -> None:
        """Count a kernel of Triton, before it would be launched with some arguments."""
        tables = [args[index] for index in _ROWS.get(name, ())]
        others = [each for each in _tensors(args) if all(each is not table for table in tables)]
        self.add(name, others)
        self.bytes += sum(_size(args[0]) // 4 * _size(table[:1]) for table in tables)
        if name in _IN_PLACE:
            self.bytes += _size(args[0])


def _tensors(*values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class _NoGpu:
    """Driver of Triton for a GPU on which nothing runs."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


@contextmanager
def counted(launches: Launches) -> Iterator[None]:
    """Count kernels in place of their launch: neither compile nor run those of Triton."""
    before, hook = driver._active, knobs.runtime.jit_cache_hook
    with ExitStack() as stack:
        stack.callback(driver.set_active, before)
        stack.callback(setattr, knobs.runtime, "jit_cache_hook", hook)
        driver.set_active(_NoGpu())
        knobs.runtime.jit_cache_hook = lambda **_: True  # true for a kernel that need not compile
        for name, kernel in _KERNELS.items():
            counter = partial(launches.launch, name)
            kernel.add_pre_run_hook(counter)
            stack.callback(kernel.pre_run_hooks.remove, counter)
        with torch.inference_mode(), launches:
            yield


@dataclass(frozen=True)
class Work:
    """Launches and bytes of a part of a pass. weights: bytes in any pass. per_token: for each."""

    launches: Counter[str]
    weights: float
    per_token: float


class Model:
    """The parts of a model on a GPU from Ampere on, without their numbers."""

    def __init__(self, spec: ModelSpec) -> None:
        arrays = {  # whose memory nothing reads
            name: np.zeros(shape, np.float32) for name, shape in shapes_of(spec).items()
        }
        self._recorded = Launches()
        factory = linear.GpuLinearFactory(_META, _DTYPE)
        operators = triton_operators(lambda *_: FlashAttention(self._attend))
        self.layers = TorchLayers(spec.config, arrays, factory, _META, operators)
        self._embeddings = InputEmbeddings(spec.config, arrays, _META, embedding.embed_rows)

    def of_pass(self) -> Work:
        """Return the work of a pass with mean pooling."""
        return self._work(lambda layout: self._pass(layout, len(self.layers)))

    def of_layer(self) -> Work:
        """Return the work of the third layer: the first ones also compute what all share."""
        less = self._work(lambda layout: self._pass(layout, 2))
        more = self._work(lambda layout: self._pass(layout, 3))
        return Work(
            more.launches - less.launches,
            more.weights - less.weights,
            more.per_token - less.per_token,
        )

    def _attend(self, *tensors: Any, **options: Any) -> Any:
        return self._recorded.attention(*tensors, **options)

    def _pass(self, layout: SequenceLayout, count: int) -> None:
        hidden = self._embeddings(layout.ids, layout, _DTYPE)
        pool_in_kernel(self.layers(hidden, layout, count), layout, ["mean"])

    def _work(self, function: Callable[[SequenceLayout], None]) -> Work:
        (few, small), (many, large) = (self._run(function, n) for n in (_TEXTS, 2 * _TEXTS))
        assert few == many
        per_token = (large - small) / (_TEXTS * _LENGTH)
        return Work(few, 2 * small - large, per_token)

    def _run(
        self, function: Callable[[SequenceLayout], None], texts: int
    ) -> tuple[Counter[str], int]:
        layout = SequenceLayout([_LENGTH] * texts, _META, _DTYPE)
        self._recorded = Launches()
        with counted(self._recorded):
            function(layout)
        return self._recorded.counts, self._recorded.bytes


def read(config: dict[str, Any]) -> Model:
    """Build a model by its configuration alone."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return Model(families.read(Path(folder)))


def rows() -> Iterator[Sequence[str]]:
    """Yield the cells of each model's row in the table."""
    for name, config in MODELS.items():
        model = read(config)
        layer, whole = model.of_layer(), model.of_pass()
        kernels = ", ".join(f"{count} {kernel}" for kernel, count in layer.launches.most_common())
        yield (
            name,
            str(len(model.layers)),
            str(whole.launches.total()),
            f"{layer.launches.total()}: {kernels}",
            f"{layer.weights / 1e6:.1f} MB",
            f"{layer.per_token / 1e3:.1f} kB",
        )


def table() -> str:
    """Return the table of all models in Markdown."""
    header = ("model", "layers", "launches", "of a layer", "its weights", "for each token")
    lines = [header, ["---"] * len(header), *rows()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
