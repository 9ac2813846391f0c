"""Training of word vectors: Word2Vec and fastText with gensim, and GloVe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from embedwell_classic.convert.word_embeddings import Choices, write_words
from embedwell_classic.convert.word_files import WordVectors
from embedwell_classic.tokenizers.vocabulary import Subwords
from embedwell_classic.training.corpus import Corpus, WordSequences
from embedwell_models.checkpoint.tables import blocks
from embedwell_models.errors import ModelError

Algorithm = Literal["word2vec", "fasttext", "glove"]


@dataclass(frozen=True)
class WordTraining:
    """Options of `train_words`.

    window: words on each side in the context of a word. epochs: passes over the corpus, or over the
    co-occurrences for GloVe. min_count: minimum occurrences of a word with a vector. buckets: rows
    of fastText's n-grams. exact: whether words stay as written. threads: threads of gensim; with
    more than one thread, vectors differ from run to run.
    """

    algorithm: Algorithm = "word2vec"
    dimensions: int = 100
    window: int = 5
    epochs: int = 5
    min_count: int = 5
    buckets: int = 100_000
    exact: bool = False
    seed: int = 1
    threads: int = 1


def train_words(corpus: Corpus, folder: Path, training: WordTraining) -> int:
    """Write a folder of word vectors, like `convert`, and return the number of words.

    Raises ModelError if no word is frequent enough.
    """
    vectors = _ALGORITHMS[training.algorithm](WordSequences(corpus, training.exact), training)
    write_words(vectors, folder, Choices(exact=training.exact))
    return len(vectors.counts)


def _word2vec(texts: WordSequences, training: WordTraining) -> WordVectors:
    from gensim.models import Word2Vec

    table = _by_gensim(Word2Vec(**_options(training)), texts, training)
    rows = zip(table.index_to_key, table.vectors, strict=True)
    return WordVectors(training.dimensions, rows, counts=_counts(table))


def _fasttext(texts: WordSequences, training: WordTraining) -> WordVectors:
    from gensim.models import FastText

    model = FastText(bucket=training.buckets, **_options(training))
    table = _by_gensim(model, texts, training)
    return WordVectors(
        training.dimensions,
        zip(table.index_to_key, table.vectors, strict=True),
        Subwords(table.min_n, table.max_n, table.bucket),
        _counts(table),
        blocks(table.vectors_ngrams),
    )


def _glove(texts: WordSequences, training: WordTraining) -> WordVectors:
    from embedwell_classic.training import glove

    counts = glove.vocabulary(texts, training.min_count)
    _refuse_no_words(counts, training)
    ids = {word: id for id, word in enumerate(counts)}
    pairs = glove.cooccurrences(texts, ids, training.window)
    table = glove.fit(pairs, training.dimensions, training.epochs, training.seed)
    return WordVectors(training.dimensions, zip(ids, table, strict=True), counts=counts)


_ALGORITHMS: Mapping[Algorithm, Callable[[WordSequences, WordTraining], WordVectors]] = {
    "word2vec": _word2vec,
    "fasttext": _fasttext,
    "glove": _glove,
}


def _options(training: WordTraining) -> dict[str, Any]:
    return {
        "vector_size": training.dimensions,
        "window": training.window,
        "min_count": training.min_count,
        "sg": 1,  # skip-gram learns more from a small corpus than CBOW
        "seed": training.seed,
        "workers": training.threads,
    }


def _by_gensim(model: Any, texts: WordSequences, training: WordTraining) -> Any:
    model.build_vocab(corpus_iterable=texts)
    _refuse_no_words(model.wv.key_to_index, training)
    model.train(corpus_iterable=texts, total_examples=model.corpus_count, epochs=training.epochs)
    return model.wv


def _counts(table: Any) -> Mapping[str, int]:
    return {word: int(table.get_vecattr(word, "count")) for word in table.index_to_key}


def _refuse_no_words(words: Mapping[str, int], training: WordTraining) -> None:
    if not words:
        raise ModelError(
            f"no word occurs {training.min_count} times: lower --min-count, or give more texts"
        )
