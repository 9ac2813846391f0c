"""Low-rank additions to the matrices of a checkpoint, from its tensors or as PEFT saves them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from embedwell_formats.peft.options import MAGNITUDES, PARTS, PeftOptions
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.adapters import CONFIG, WEIGHTS
from embedwell_models.checkpoint.formats import StoredTensor
from embedwell_models.checkpoint.safetensors_files import to_finite_float32
from embedwell_models.checkpoint.tables import LayerMatrix, QuantizedMatrix, Stored, decoded
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import Adapters, ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_PREFIX = "base_model.model."


@dataclass(frozen=True)
class LowRank:
    """Product of two matrices (N, r) and (r, D), times a scale, which is added to a matrix.

    magnitudes: (N,) lengths of the rows of the sum, in place of their own (DoRA); None for these.
    """

    up: Floats
    down: Floats
    scale: float
    magnitudes: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """N, D."""
        return len(self.up), self.down.shape[1]

    def change(self, name: str, stored: Stored) -> LayerMatrix:
        """Return a matrix (N, D) with this addition, which is computed whenever it is read."""

        def decode() -> Floats:
            changed = self.up @ (self.down * np.float32(self.scale))
            changed += decoded(stored)
            safetensors_files.release_pages([stored])
            if self.magnitudes is not None:
                changed *= (self.magnitudes / np.linalg.norm(changed, axis=1))[:, None]
            return changed

        return LayerMatrix(name, self.shape, decode)


@dataclass(frozen=True)
class PeftAdapter:
    """Changes to the tensors of a model, by the model's names of them.

    path: the file with the changes. additions: products that are added to matrices. replacements:
    tensors that were trained as a whole (`modules_to_save`), such as those of a classifier.
    """

    path: Path
    additions: Mapping[str, LowRank]
    replacements: Mapping[str, StoredTensor]

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors that it changes or replaces."""
        return (*self.additions, *self.replacements)

    @classmethod
    def read(cls, folder: Path, tasks: Sequence[str] = (), task: str = "") -> "PeftAdapter":
        """Read a folder; raises ModelError for what is not supported, and for a missing file.

        tasks: those whose names end the names of the tensors, of which only `task` is read; none
        for an adapter as PEFT saves it.
        """
        options = PeftOptions.read(JsonConfig(folder / CONFIG))
        parts = options.parts
        path = folder / WEIGHTS
        if not path.is_file():
            raise ModelError(f"{path} is missing")
        factors: dict[str, dict[str, Floats]] = {}
        replacements: dict[str, StoredTensor] = {}
        for name, tensor in safetensors_files.map_file(path):
            stem, ending = name.removesuffix(".weight"), f".{task}" if tasks else ""
            if any(stem.endswith(f".{other}") for other in tasks if other != task):
                continue
            module, _, part = stem.removesuffix(ending).rpartition(".")
            theirs = name.removeprefix(_PREFIX)
            if part in parts and name.startswith(_PREFIX) and stem.endswith(ending):
                if not options.adapts(module.removeprefix(_PREFIX)):
                    raise ModelError(
                        f"{path} has {name}, which PEFT does not load, because the options of "
                        f"{CONFIG} do not choose this module: correct target_modules"
                    )
                numbers = _numbers(path, name, tensor, axes=1 if part == MAGNITUDES else 2)
                of_matrix = factors.setdefault(f"{module.removeprefix(_PREFIX)}.weight", {})
                if part in of_matrix:
                    raise ModelError(f"{path}: there are two of {module}.{part}")
                of_matrix[part] = numbers
            elif name.startswith(_PREFIX) and _is_saved(theirs, options.saved):
                replacements[theirs] = tensor
            else:
                raise ModelError(
                    f"{path}: {name} is not supported; supported: {parts}, and the modules_to_save"
                )
        additions = {
            name: _low_rank(path, name, parts, of_matrix, options.scale)
            for name, of_matrix in factors.items()
        }
        if both := sorted(additions.keys() & replacements.keys()):
            raise ModelError(f"{path}: {both[0]} is trained as a whole and has {PARTS}, too")
        return cls(path, additions, replacements)

    def adapt(self, tensors: Mapping[str, StoredTensor]) -> Iterator[tuple[str, StoredTensor]]:
        """Yield name and value of every tensor of a model with the changes, and of new tensors.

        Matrices are changed when they are read. A name may have more or fewer parts at its start
        than the model's, because a task's class puts the encoder into a part of its own. Where the
        model lacks a matrix, its addition has no effect.

        Raises ModelError for a matrix that has another shape.
        """
        changed: dict[str, StoredTensor] = {}
        for name, replacement in self.replacements.items():
            changed[self._find(name, tensors) or name] = replacement
        names = {name: self._find(name, tensors) for name in self.additions}
        matrices = {name: theirs for name, theirs in names.items() if theirs is not None}
        for name, theirs in matrices.items():
            changed[theirs] = self._add(theirs, tensors[theirs], self.additions[name])
        if len(changed) < len(self.replacements) + len(matrices):
            raise ModelError(f"{self.path}: two of its tensors change one of the base model's")
        yield from {**tensors, **changed}.items()

    def _find(self, name: str, tensors: Mapping[str, StoredTensor]) -> str | None:
        if name in tensors:
            return name
        alike = [each for each in tensors if each.endswith(f".{name}") or name.endswith(f".{each}")]
        return alike[0] if len(alike) == 1 else None

    def _add(self, name: str, tensor: StoredTensor, addition: LowRank) -> StoredTensor:
        if not tensor.is_float:
            raise ModelError(f"{self.path}: {name} of the base model {tensor.refusal}")
        if tensor.array.shape != addition.shape:
            raise ModelError(
                f"{self.path}: {name} of the base model has the shape {tensor.array.shape}, and "
                f"the addition {addition.shape}"
            )
        return StoredTensor(tensor.dtype, addition.change(name, tensor.array))


def task_additions(
    folder: Path, spec: ModelSpec, tensors: Iterable[tuple[str, StoredTensor]]
) -> Mapping[str, LowRank]:
    """Read what the adapter of the chosen task adds to matrices, by the checkpoint's names of them.

    tensors: of the checkpoint, read if they have the adapters. Raises ModelError.
    """
    adapters = spec.adapters
    assert adapters is not None
    if adapters.chosen_folder:
        return _own_file_additions(folder, adapters)
    return _parametrized_additions(folder, spec, adapters, tensors) if adapters.scale else {}


def _own_file_additions(folder: Path, adapters: Adapters) -> Mapping[str, LowRank]:
    # Of an adapter that PEFT has saved, by the checkpoint's names of the matrices.
    assert adapters.chosen_folder is not None and adapters.name is not None
    tasks = adapters.names if adapters.in_one_file else ()
    adapter = PeftAdapter.read(folder / adapters.chosen_folder, tasks, adapters.name)
    if adapter.replacements:
        raise ModelError(f"{adapter.path}: {[*adapter.replacements]} for a task is not supported")
    return adapter.additions


def _parametrized_additions(
    folder: Path,
    spec: ModelSpec,
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


def _is_saved(name: str, modules: Sequence[str]) -> bool:
    # PEFT saves each module whose full name ends in one of the names.
    return not re.search(r"\.(lora_|base_layer\.)", name) and any(
        f"{module}." in name for module in modules
    )


def _numbers(path: Path, name: str, tensor: StoredTensor, axes: int) -> Floats:
    if isinstance(tensor.array, QuantizedMatrix) or not tensor.is_float:
        raise ModelError(f"{path}: {name} {tensor.refusal}")
    values = tensor.to_float32()
    if values.ndim != axes or not np.isfinite(values).all():
        kind = "matrix" if axes == 2 else "vector"
        raise ModelError(f"{path}: {name} is not a {kind} of finite numbers")
    return values


def _low_rank(
    path: Path, name: str, parts: Sequence[str], tensors: Mapping[str, Floats], scale: float
) -> LowRank:
    if missing := {*parts} - tensors.keys():
        raise ModelError(f"{path} lacks {sorted(missing)} of {name}")
    down, up = (tensors[part] for part in PARTS)
    magnitudes = tensors.get(MAGNITUDES)
    if up.shape[1] != len(down) or (magnitudes is not None and len(magnitudes) != len(up)):
        shapes = " and ".join(str(tensors[part].shape) for part in parts)
        raise ModelError(f"{path}: the shapes of {name} are {shapes}")
    return LowRank(up, down, scale, magnitudes)
