"""How many parameters a model has, and how much memory they take in each precision."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from models.checkpoint import safetensors_files
from models.folder import Folder
from models.sentence_transformers.modules import Normalize

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
_FOLDED = ("token_rows", "token_scales")  # into the table


@dataclass(frozen=True)
class Footprint:
    """Parameters by where they are kept, from the headers of the files alone.

    products: of the layers' matrices, in the precision that is chosen. others: tables, norms,
    biases and the modules after the pooling, in float32 always.
    """

    products: int
    others: int

    @classmethod
    def of(cls, folder: Folder) -> "Footprint":
        """Raises ModelError for a tensor that the family does not have."""
        sizes = list(_sizes(folder))
        products = sum(size for size, product in sizes if product)
        return cls(products, sum(size for size, _ in sizes) - products)

    @property
    def parameters(self) -> int:
        return self.products + self.others

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes of the weights in each precision."""
        return {name: self.products * size + self.others * 4 for name, size in _BYTES.items()}


def _sizes(folder: Folder) -> Iterator[tuple[int, bool]]:
    # The size of each tensor that is loaded, and whether it is of a product of the layers.
    encoder, *after = folder.checkpoints()
    config = folder.spec.config
    for theirs, header in safetensors_files.headers(encoder).items():
        for ours in folder.spec.rename(theirs)[:1]:  # parts of one tensor count once
            if ours == "token_table":
                yield config.vocab_size * config.embedding_size, False
            elif ours not in _FOLDED:
                matrix = ours.startswith("layers.") and ours.endswith(".weight")
                yield prod(header.shape), matrix and len(header.shape) > 1
    for step in folder.sentence.modules:
        if not isinstance(step, Normalize) and not step.own_file:
            yield sum(map(prod, step.shapes.values())), False
    for path in after:
        yield sum(prod(header.shape) for header in safetensors_files.headers(path).values()), False
