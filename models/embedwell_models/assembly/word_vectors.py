"""Loading of a table of word vectors and of the weights of its words."""

from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from embedwell_models.families.word_vectors import TABLE
from embedwell_models.folder import Folder
from embedwell_models.tables import stored
from embedwell_models.torch_backend.word_vectors import WordVectorEncoder
from embedwell_models.word_table import mapped_parts


def load_word_vector_encoder(folder: Folder) -> WordVectorEncoder:
    """Build the encoder of a folder and map its table into memory; raises ModelError."""
    parts = mapped_parts(folder.encoder, folder.spec)
    stored.check(parts, folder.spec.tensors)
    table = stored.build(parts)
    if folder.sentence.word_weights is None:
        return WordVectorEncoder(folder.spec.config, table, None)
    path = folder.path / folder.sentence.word_weights
    tensors = {
        name: weights.to_finite_float32(path, name, part)
        for name, part in weights.iterate_tensors(path)
    }
    shapes = {name: tuple(part.shape) for name, part in tensors.items()}
    if shapes != {TABLE: (len(table), 1)}:
        raise ModelError(f"{path} has {shapes}, and the table {len(table)} words")
    return WordVectorEncoder(folder.spec.config, table, tensors[TABLE].flatten())
