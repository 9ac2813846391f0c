"""What a checkpoint's config.json says: the encoder's shape, and where the files keep its parts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from models.config.encoder_config import EncoderConfig
from models.errors import ModelError

LARGEST = -1


@dataclass(frozen=True, kw_only=True)
class Projection:
    """A family's own vector of a text: the state of the token that ends it, times a matrix.

    tensor: the matrix in the file, (width, D). end: the id whose first occurrence ends a text, or
    LARGEST for the largest id of the text. always: whether the model knows no other vector.
    """

    tensor: str
    width: int
    end: int
    always: bool


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """An encoder's shape, and how its family lays out a checkpoint.

    tensors: name in the file ('{}' is the layer number) -> our name, or several with '|' between
    them for equal parts of the rows.
    unused: names in the file that inference does not need ('*' matches the rest of the name).
    prefixes: what checkpoints saved with a task head put before every name.
    absent: our names that the table would lead to expect, and that this checkpoint does not have.
    by_head: a fused query, key and value are those of each head in turn.
    transposed: our names, without a layer, of matrices that lie (in, out).
    norm_shift: what the file leaves out of every normalisation's weight.
    projection: what makes a text's vector of its states, where that is no pooling.
    spare_rows: rows at the end of the file's token table that are not read.
    """

    config: EncoderConfig
    tensors: Mapping[str, str]
    unused: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()
    by_head: bool = False
    transposed: tuple[str, ...] = ()
    norm_shift: float = 0.0
    projection: Projection | None = None
    spare_rows: int = 0

    def expected(self) -> set[str]:
        """Our names of all the tensors that the encoder needs."""
        layers = range(self.config.distinct_layers) or [0]  # a table alone has none
        names = [part for ours in self.tensors.values() for part in split(ours)]
        return {name.format(i) for name in names for i in layers} - self.absent

    def rename(self, name: str) -> list[str]:
        """Our names for a checkpoint's tensor, none for one that inference does not need.

        Raises ModelError for a name that the family does not have.
        """
        # Checkpoints converted from TensorFlow call the parameters of a norm gamma and beta.
        plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", self._strip(name)))
        layer = re.search(r"\.(\d+)\.", f".{plain}")
        key = re.sub(r"\.\d+\.", ".{}.", f".{plain}", count=1)[1:]
        if key in self.tensors:
            number = int(layer.group(1)) if layer else 0
            return [part.format(number) for part in split(self.tensors[key])]
        if any(fnmatchcase(key, pattern) for pattern in self.unused):
            return []
        raise ModelError(f"unknown tensor {name!r} in the checkpoint")

    def _strip(self, name: str) -> str:
        found = next((prefix for prefix in self.prefixes if name.startswith(prefix)), "")
        return name.removeprefix(found)


def split(ours: str) -> list[str]:
    """'layers.{}.query|key.weight' -> the names of its parts."""
    head, _, tail = ours.rpartition(".")
    if "|" not in head:
        return [ours]
    layer, _, parts = head.rpartition(".")
    return [f"{layer}.{part}.{tail}" for part in parts.split("|")]


def affine(theirs: str, ours: str) -> dict[str, str]:
    """The names of a product's or a norm's weight and bias."""
    return {f"{theirs}.{part}": f"{ours}.{part}" for part in ("weight", "bias")}


def linear(theirs: str, ours: str, bias: bool = False) -> dict[str, str]:
    """The names of a weight, and of its bias if it has one."""
    return affine(theirs, ours) if bias else {f"{theirs}.weight": f"{ours}.weight"}
