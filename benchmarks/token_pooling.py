"""What smaller results of token vectors lose: recall of token pooling and of MUVERA.

The texts are the paragraphs of docs/, the queries their headings. The vectors of tokens are the
last states of the default model. Recall: the share of the ten best documents by MaxSim of all
vectors that are among the ten, or the hundred, best of the smaller results.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import script
from benchmarks.environments import ROOT
from embedwell_models import Embedder
from embedwell_models.encoder.muvera import Muvera
from embedwell_models.encoder.token_pooling import pool_tokens
from embedwell_models.vectors import Floats, normalize

_FACTORS = (2, 3, 6)
_ENCODERS = (  # options of Muvera
    {"k_sim": 5, "dim_proj": 16, "r_reps": 20},
    {"k_sim": 5, "dim_proj": 32, "r_reps": 40},
)
_FEWEST_CHARACTERS, _TOP, _CANDIDATES = 60, 10, 100


def texts(folder: Path) -> tuple[list[str], list[str]]:
    """Return the distinct headings and paragraphs of the pages of a folder."""
    headings, paragraphs = dict[str, None](), dict[str, None]()
    for page in sorted(folder.rglob("*.md")):
        content = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", content):
            text = " ".join(block.split())
            if block.startswith("#"):
                headings[text.lstrip("# ")] = None
            elif len(text) >= _FEWEST_CHARACTERS:
                paragraphs[text] = None
    return [*headings], [*paragraphs]


def token_vectors(model: Embedder, rows: Sequence[str]) -> list[Floats]:
    """Return the last states of each text's tokens, with the length 1: B arrays (T, D)."""
    ids = model.tokenize(rows)
    return [normalize(model.hidden([each])[0]) for each in ids]


def maxsims(queries: Sequence[Floats], documents: Sequence[Floats]) -> Floats:
    """Return MaxSim of each query and document: (Q, B)."""
    rows, starts = np.concatenate(documents), np.cumsum([0, *map(len, documents[:-1])])
    scores = [np.maximum.reduceat(query @ rows.T, starts, axis=1).sum(axis=0) for query in queries]
    return np.array(scores, dtype=np.float32)


def recall(exact: Floats, scores: Floats, candidates: int) -> float:
    """Return the share of the best by exact scores (Q, B) that are candidates by other scores."""
    best = np.argsort(-exact, axis=1, kind="stable")[:, :_TOP]
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, :candidates]
    found = [len({*a} & {*b}) for a, b in zip(best.tolist(), chosen.tolist(), strict=True)]
    return float(np.mean(found)) / _TOP


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Compute the recall of each smaller result; return the results for the file."""
    headings, paragraphs = texts(ROOT / "docs")
    model = Embedder.load(args.model, device="cpu", dtype="float32")
    queries, documents = token_vectors(model, headings), token_vectors(model, paragraphs)
    exact, results = maxsims(queries, documents), list[dict[str, Any]]()

    def add(name: str, numbers: float, scores: Floats) -> None:
        recalls = {top: recall(exact, scores, top) for top in (_TOP, _CANDIDATES)}
        results.append({"name": name, "bytes": 4 * numbers / len(documents), "recall": recalls})

    add("all vectors", sum(each.size for each in documents), exact)
    for factor in _FACTORS:
        pooled = [pool_tokens(each, factor) for each in documents]
        size = sum(each.size for each in pooled)
        add(f"pool_factor {factor}", size, maxsims(queries, pooled))
    for options in _ENCODERS:
        encoder = Muvera(model.dim, **options)
        rows = np.stack([encoder.document(each) for each in documents])
        scores = np.stack([encoder.query(each) for each in queries]) @ rows.T
        about = ", ".join(f"{name} {value}" for name, value in options.items())
        add(f"muvera {about}", rows.size, scores)
    return {"queries": len(queries), "documents": len(documents), "results": results}


def report(results: dict[str, Any]) -> str:
    """Return the table of results."""
    title = f"{results['queries']} headings, {results['documents']} paragraphs of docs/"
    header = ["stored", "kB for each document", f"in {_TOP}", f"in {_CANDIDATES}"]
    return script.table(
        title,
        header,
        [
            [
                each["name"],
                f"{each['bytes'] / 1e3:.1f}",
                *(f"{r:.3f}" for r in each["recall"].values()),
            ]
            for each in results["results"]
        ],
    )


def main() -> None:
    script.main(script.parser(__doc__, "token-pooling"), run, report)


if __name__ == "__main__":
    main()
