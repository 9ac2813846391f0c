"""Conversion of a single file, by the suffix of its name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from embedwell_models.config import other_files
from embedwell_models.convert import doc2vec, elmo, gensim_pickle, laser
from embedwell_models.convert.doc2vec import convert_doc2vec
from embedwell_models.convert.elmo import convert_elmo
from embedwell_models.convert.laser import convert_laser
from embedwell_models.convert.word_embeddings import Choices, convert_words
from embedwell_models.errors import ModelError

ENCODERS: Mapping[str, Callable[[Path, Path], None]] = {
    **dict.fromkeys(doc2vec.SUFFIXES, convert_doc2vec),
    elmo.SUFFIX: convert_elmo,
    laser.SUFFIX: convert_laser,
}
"""Converters of older encoders' files, by suffix; all other files are word vectors."""


def convert_file(source: Path, target: Path, choices: Choices) -> None:
    """Convert a file of word vectors, or of an older encoder's weights, to a folder.

    choices: the options for word vectors. Raises ModelError for a file that cannot be read, and if
    `target` exists.
    """
    _refuse_other_kinds(source)
    convert = ENCODERS.get(source.suffix)
    if convert is None:
        convert_words(source, target, choices)
    elif choices != Choices():
        raise ModelError("--limit, --exact, --weights and --corpus are for files of word vectors")
    else:
        convert(source, target)


def _refuse_other_kinds(source: Path) -> None:
    other_files.refuse_pointer(source)
    if other_files.format_name(source):
        raise ModelError(f"{source} {other_files.other_format(source)}")
    gensim_pickle.refuse_word_vectors(source)
