"""Loads a table of word vectors, and the weights of its words."""

from models.checkpoint import weights
from models.errors import ModelError
from models.families.word_vectors import TABLE
from models.folder import Folder
from models.torch_backend.word_vectors import WordVectorEncoder


def load_word_vectors(folder: Folder) -> WordVectorEncoder:
    """Map the table of a folder into memory; raises ModelError."""
    table = weights.load(folder.encoder, folder.spec)["token_table"]
    if folder.sentence.word_weights is None:
        return WordVectorEncoder(folder.spec.config, table, None)
    path = folder.path / folder.sentence.word_weights
    tensors = {name: weights.float32(path, name, part) for name, part in weights.tensors(path)}
    shapes = {name: tuple(part.shape) for name, part in tensors.items()}
    if shapes != {TABLE: (len(table), 1)}:
        raise ModelError(f"{path} has {shapes}, and the table {len(table)} words")
    return WordVectorEncoder(folder.spec.config, table, tensors[TABLE].flatten())
