"""Adapters of a checkpoint: those of tasks, and one of its own, which are added when it is read.

They are among its tensors, or in files of their own, as PEFT saves them. What reads them is
imported for a model that has one.
"""

import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from embedwell_models.checkpoint.formats import StoredTensor
from embedwell_models.checkpoint.tables import TABLE, LayerMatrix, Stored
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

FILES = CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FOLDER = "peft_adapter"  # in the folder of an encoder, whose weights it is added to
_READ = "embedwell_formats.peft.adapters:PeftAdapter.read"
_READ_TASK = "embedwell_formats.peft.adapters:task_additions"


class Addition(Protocol):
    """An adapter's change of a matrix (N, D), which is added to it."""

    @property
    def shape(self) -> tuple[int, int]:
        """N, D."""

    def change(self, name: str, stored: Stored) -> LayerMatrix:
        """Return a matrix with this addition, which is computed whenever it is read."""


class Adapter(Protocol):
    """Changes to the tensors of a checkpoint, by its names of them."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors that it changes or replaces."""

    def adapt(self, tensors: Mapping[str, StoredTensor]) -> Iterator[tuple[str, StoredTensor]]:
        """Yield name and value of every tensor with the changes; raises ModelError."""


def read_own(encoder: Path) -> Adapter | None:
    """Read the adapter that belongs to an encoder's folder; None without one."""
    if not (encoder / FOLDER).is_dir():
        return None
    adapter: Adapter = _reader(_READ)(encoder / FOLDER)
    return adapter


def folders(encoder: Path, chosen: str | None) -> list[Path]:
    """List the folders of the adapters that are added to an encoder's weights.

    chosen: folder of the adapter of a task, relative to the encoder's; None without one.
    """
    of_task = [encoder / chosen] if chosen else []
    return [*of_task, *[encoder / FOLDER] * (encoder / FOLDER).is_dir()]


def check_trained(folder: Path, spec: ModelSpec, expected: set[str]) -> None:
    """Check that a model has the tensors that its own PEFT adapter changes; raises ModelError.

    expected: our names of the model's tensors.
    """
    adapter = read_own(folder)
    for name in adapter.names if adapter else ():
        names = {*spec.rename(name)}
        if names - expected:
            raise ModelError(f"{folder}: config.json implies no {name}, which the adapter has")
        if TABLE in names:  # other tensors may share its numbers, such as a model's output
            raise ModelError(f"{folder}: {name}, trained by an adapter, is not supported: merge it")


def read_additions(
    folder: Path, spec: ModelSpec, tensors: Iterable[tuple[str, StoredTensor]]
) -> dict[tuple[str, ...], Addition]:
    """Read what the adapter of the chosen task adds to matrices, by our names of the matrices.

    tensors: of the checkpoint, read if they have the adapters. Raises ModelError.
    """
    adapters = spec.adapters
    if adapters is None:
        return {}
    if adapters.chosen is None:
        if adapters.modules:
            names = ", ".join(adapters.names)
            raise ModelError(f"{folder}: its layers need an adapter: EMBEDWELL_ADAPTER of {names}")
        return {}
    additions = _task_additions(folder, spec, tensors)
    renamed = ((tuple(spec.rename(name)), addition) for name, addition in additions.items())
    return {names: addition for names, addition in renamed if names}  # [] is not needed


def changed(folder: Path, spec: ModelSpec, name: str, matrix: Floats) -> Floats:
    """Return a matrix next to the encoder as the adapter of the chosen task changes it.

    name: in the checkpoint. Raises ModelError for another shape, and as `read_additions` does.
    """
    if spec.adapters is None or not spec.adapters.chosen_folder:
        return matrix
    addition = _task_additions(folder, spec, ()).get(name)
    return matrix if addition is None else add(folder, name, matrix, addition).to_float32()


def add(folder: Path, name: str, matrix: Stored, addition: Addition) -> LayerMatrix:
    """Return a matrix with an addition, computed when it is read; raises ModelError."""
    if matrix.shape != addition.shape:
        raise ModelError(
            f"{folder}: {name} has the shape {matrix.shape}, and the adapter's {addition.shape}"
        )
    return addition.change(name, matrix)


def _task_additions(
    folder: Path, spec: ModelSpec, tensors: Iterable[tuple[str, StoredTensor]]
) -> Mapping[str, Addition]:
    additions: Mapping[str, Addition] = _reader(_READ_TASK)(folder, spec, tensors)
    return additions


def _reader(name: str) -> Any:
    return pkgutil.resolve_name(name)
