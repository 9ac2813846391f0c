"""Vectors of the vocabulary of a model that is a table, in its mapped file."""

from dataclasses import dataclass
from pathlib import Path

from embedwell_classic.tokenizers.vocabulary import WordOptions
from embedwell_models import families
from embedwell_models.checkpoint import safetensors_files, tables
from embedwell_models.checkpoint.tables import Array, Chosen, Table
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class WordTable:
    """Rows of N words, decoded when they are read.

    table: the table of the file; rows of n-grams follow the rows of words. count: N.
    """

    table: Table
    count: int

    @classmethod
    def of(cls, description: ModelDescription) -> "WordTable | None":
        """Map the table of a model; return None for a model with layers. Raises ModelError."""
        family = families.named(description.spec.config.family)
        if family.table is None:
            return None
        table = tables.build(mapped_parts(description.encoder, description.spec))
        if family.is_decoded_table:
            return cls(table, len(table))
        subwords = WordOptions.read(description.encoder).subwords
        return cls(table, len(table) - (subwords.buckets if subwords else 0))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, words: Chosen) -> Floats:
        """Return the vectors of some words: (n, D)."""
        return self.table[words]


def mapped_parts(folder: Path, spec: ModelSpec) -> dict[str, Array]:
    """Map the parts of a table, by our names; raises ModelError for an unknown tensor."""
    arrays = safetensors_files.map_folder(folder)
    return {ours: array for name, array in arrays.items() for ours in spec.rename(name)}
