"""Weights of words by their frequency (SIF and IDF), and removal of their common component."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from embedwell_classic.convert.module_files import write_json
from embedwell_classic.encoders.word_vectors import WordVectorEncoder
from embedwell_classic.tokenizers.words import WordTokenizer
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Doubles

Weighting = Literal["sif", "idf"]
_SMOOTHING = 1e-3  # `a` in the paper
_TEXTS = 1024  # texts that are computed at once


@dataclass(frozen=True)
class WordCounts:
    """Counts of a corpus. words: word -> occurrences. texts: word -> texts that contain it.

    total: number of texts.
    """

    words: Mapping[str, int]
    texts: Mapping[str, int]
    total: int

    @classmethod
    def of(cls, corpus: Iterable[str], split: Callable[[str], list[str]]) -> "WordCounts":
        """Count the words of texts. split: splits a text into words."""
        words, texts, total = Counter[str](), Counter[str](), 0
        for text in corpus:
            words_of_text = split(text)
            words.update(words_of_text)
            texts.update(set(words_of_text))
            total += 1
        return cls(words, texts, total)


def weight_function(
    weighting: Weighting, counts: WordCounts | None, trained: Mapping[str, int]
) -> Callable[[str], float]:
    """Return the function from a word to its weight.

    idf is ln((1 + N) / (1 + n)) + 1 for a word in n of N texts, as scikit-learn computes it. sif is
    a / (a + p) for a word with the frequency p (Arora et al. 2017, "A simple but tough-to-beat
    baseline for sentence embeddings").

    counts: the counts of a corpus. trained: the counts in the file of the vectors. Raises
    ModelError if the weighting needs counts that are missing.
    """
    if weighting == "idf":
        if counts is None:
            raise ModelError("idf weights need a corpus with a text in each line: --corpus FILE")
        return lambda word: math.log((1 + counts.total) / (1 + counts.texts.get(word, 0))) + 1
    words = counts.words if counts is not None else trained
    total = sum(words.values())
    if not total:
        raise ModelError(
            "the file has no word counts; sif weights then need a corpus: --corpus FILE"
        )
    return lambda word: _SMOOTHING / (_SMOOTHING + words.get(word, 0) / total)


def lines(path: Path) -> list[str]:
    """Read the texts of a corpus, one text in each line; raises ModelError."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read as UTF-8: {error}") from None


def remove_common_component(folder: Path, texts: Sequence[str], tokenizer: WordTokenizer) -> None:
    """Write a Dense module that removes a vector's part along the first singular vector u.

    The module computes v - u uᵀ v. u is the first singular vector of the vectors of the texts.
    Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings".
    folder: a model that computes weighted means, without this module.
    """
    encoder = WordVectorEncoder.load(ModelDescription.read(folder), "cpu", frozenset())
    products: Doubles = np.zeros((encoder.table.width,) * 2)
    for start in range(0, len(texts), _TEXTS):
        rows = [tokenizer.encode(text).ids for text in texts[start : start + _TEXTS]]
        vectors = encoder.vectors(Batch.of(rows), ["mean"]).astype(np.float64)
        products += vectors.T @ vectors
    first = np.linalg.eigh(products).eigenvectors[:, -1:]
    weight = (np.eye(len(first)) - first @ first.T).astype(np.float32)
    config = {
        "in_features": len(first),
        "out_features": len(first),
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    write_json(folder / "3_Dense" / "config.json", config)
    path = folder / "3_Dense" / "model.safetensors"
    safetensors_files.write_arrays(path, {"linear.weight": weight})
