"""Workloads of the engines: groups of texts as token ids; each group is embedded as a whole."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deploy.loadtest.corpus import Corpus

WORDS = {"short": (4, 14), "passage": (40, 200), "long": (400, 400)}  # fewest, most
_TEXTS = {"short": 512, "passage": 128, "long": 24}
_BATCHES = (8, 16, 32)  # texts of the short class
_QUERY_TOKENS = 12
_GROUPS = 16  # groups of a batch size, so that an engine is not measured on one shape only
_CALIBRATION = 100  # texts of each class

Tokenize = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True)
class Workload:
    """Groups of token ids. passes: number of runs in a round.

    A throughput is measured on all texts at once, a latency on a single group.
    """

    name: str
    groups: list[list[list[int]]]
    passes: int
    throughput: bool

    def describe(self) -> dict[str, int | bool]:
        """Return the size of the workload."""
        rows = [row for group in self.groups for row in group]
        return {
            "groups": len(self.groups),
            "texts": len(rows),
            "tokens": sum(map(len, rows)),
            "throughput": self.throughput,
        }


def workloads(tokenize: Tokenize, *, seed: int, quick: bool) -> list[Workload]:
    """Return all workloads. quick: smaller ones."""
    dice = random.Random(seed)
    corpus = Corpus(dice)
    share = 4 if quick else 1
    work = []
    for name, words in WORDS.items():
        rows = tokenize([corpus.cut(*words) for _ in range(_TEXTS[name] // share)])
        work.append(Workload(name, [rows], passes=1 if quick else 2, throughput=True))
    queries = [[row] for row in _queries(corpus, tokenize, _GROUPS)]
    work.append(Workload("query", queries, passes=10 // share, throughput=False))
    for size in _BATCHES:
        groups = [
            tokenize([corpus.cut(*WORDS["short"]) for _ in range(size)])
            for _ in range(_GROUPS // share)
        ]
        work.append(Workload(f"batch of {size}", groups, passes=4, throughput=False))
    return work


def calibration(tokenize: Tokenize, *, seed: int) -> list[list[int]]:
    """Return token ids for calibration, of every class, from another part of the corpus."""
    corpus = Corpus(random.Random(seed), held_out=True)
    texts = [corpus.cut(*words) for words in WORDS.values() for _ in range(_CALIBRATION)]
    return tokenize(texts)


def _queries(corpus: Corpus, tokenize: Tokenize, count: int) -> Iterable[list[int]]:
    while count:
        [row] = tokenize([corpus.cut(5, 10)])
        if len(row) == _QUERY_TOKENS:
            count -= 1
            yield row
