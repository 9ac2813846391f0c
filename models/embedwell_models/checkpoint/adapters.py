"""Adapters of a checkpoint: those of tasks, which are added when it is read, and its own."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from embedwell_models.checkpoint import peft_adapter
from embedwell_models.checkpoint.peft_adapter import LowRank
from embedwell_models.checkpoint.quantized.layer import LayerMatrix
from embedwell_models.checkpoint.safetensors_files import StoredTensor, to_finite_float32
from embedwell_models.config.checkpoint_layout import Adapters, CheckpointLayout
from embedwell_models.errors import ModelError
from embedwell_models.tables.names import TABLE
from embedwell_models.tables.quantized import QuantizedMatrix, Stored
from embedwell_models.vectors import Floats


def check_trained(folder: Path, spec: CheckpointLayout, expected: set[str]) -> None:
    """Check that a model has the tensors that its own PEFT adapter changes; raises ModelError.

    expected: our names of the model's tensors.
    """
    adapter = peft_adapter.read_own(folder)
    for name in (*adapter.additions, *adapter.replacements) if adapter else ():
        names = {*spec.rename(name)}
        if names - expected:
            raise ModelError(f"{folder}: config.json implies no {name}, which the adapter has")
        if TABLE in names:  # other tensors may share its numbers, such as a model's output
            raise ModelError(f"{folder}: {name}, trained by an adapter, is not supported: merge it")


def read_additions(
    folder: Path, spec: CheckpointLayout, tensors: Iterable[tuple[str, StoredTensor]]
) -> dict[tuple[str, ...], LowRank]:
    """Read what the adapter of the chosen task adds to matrices, by our names of the matrices.

    tensors: those of the checkpoint, read if they have the adapters. Raises ModelError.
    """
    adapters = spec.adapters
    if adapters is None:
        return {}
    if adapters.chosen is None:
        if adapters.modules:
            names = ", ".join(adapters.names)
            raise ModelError(f"{folder}: its layers need an adapter: EMBEDWELL_ADAPTER of {names}")
        return {}
    if adapters.chosen_folder:
        additions = _own_file_additions(folder, adapters)
    elif adapters.scale:
        additions = _parametrized_additions(folder, spec, adapters, tensors)
    else:
        return {}
    renamed = ((tuple(spec.rename(name)), addition) for name, addition in additions.items())
    return {names: addition for names, addition in renamed if names}  # [] is not needed


def changed(folder: Path, spec: CheckpointLayout, name: str, matrix: Floats) -> Floats:
    """Return a matrix beside the encoder as the adapter of the chosen task changes it.

    name: in the checkpoint. Raises ModelError for another shape, and as `read_additions` does.
    """
    if spec.adapters is None or not spec.adapters.chosen_folder:
        return matrix
    addition = _own_file_additions(folder, spec.adapters).get(name)
    return matrix if addition is None else add(folder, name, matrix, addition).to_float32()


def _own_file_additions(folder: Path, adapters: Adapters) -> Mapping[str, LowRank]:
    # Of an adapter that PEFT has saved, by the checkpoint's names of the matrices.
    assert adapters.chosen_folder is not None and adapters.name is not None
    tasks = adapters.names if adapters.in_one_file else ()
    return peft_adapter.read_additions(folder / adapters.chosen_folder, tasks, adapters.name)


def _parametrized_additions(
    folder: Path,
    spec: CheckpointLayout,
    adapters: Adapters,
    tensors: Iterable[tuple[str, StoredTensor]],
) -> Mapping[str, LowRank]:
    # Of an adapter among the tensors of the checkpoint.
    assert adapters.chosen is not None and adapters.scale is not None
    factors: dict[str, dict[str, Floats]] = {}
    for name, tensor in tensors:
        matrix, _, factor = name.rpartition(".0.lora_")
        if not matrix or not spec.rename(f"{matrix}.original"):
            continue
        if len(tensor.array) != len(adapters.names):
            raise ModelError(
                f"{folder}: {name} has {len(tensor.array)} parts for the adapters {adapters.names}"
            )
        assert not isinstance(tensor.array, QuantizedMatrix)  # GGUF has no adapters
        chosen = replace(tensor, array=tensor.array[adapters.chosen])
        part = to_finite_float32(folder, name, chosen)
        factors.setdefault(f"{matrix}.original", {})[factor] = part
    additions = {}
    for name, pair in factors.items():
        is_table = spec.rename(name)[0].endswith("_table")  # the rows of a table are inputs
        up, down = (pair["A"], pair["B"]) if is_table else (pair["B"], pair["A"])
        additions[name] = LowRank(up, down, adapters.scale)
    return additions


def add(folder: Path, name: str, matrix: Stored, addition: LowRank) -> LayerMatrix:
    """Return a matrix with an addition, computed when it is read; raises ModelError."""
    if matrix.shape != addition.shape:
        raise ModelError(
            f"{folder}: {name} has the shape {matrix.shape}, and the adapter's {addition.shape}"
        )
    return addition.change(name, matrix)
