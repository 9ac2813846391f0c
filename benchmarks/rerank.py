"""Compare rerankers of this engine and other engines on the same pairs of token ids, in turn.

The model is the default model's encoder with a random head. The pairs are queries of a few words,
each with 32 passages of Python's manual.
"""

import argparse
from typing import Any

import torch

from benchmarks import heads, script
from benchmarks.heads import GROUP, PASSAGE, QUERY
from deploy.loadtest.corpus import Corpus
from embedwell_models import Embedder
from embedwell_models.tokenizer.pairs import PairTokenizer
from embedwell_models.tokenizer.steps import run_to_completion

CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "relevance"},
    "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
}


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    folder = heads.write_model(args, "reranker", CONFIG, head_tensors)
    embedder = Embedder.load(folder, dtype="float32", device="cpu")
    tokenizer = PairTokenizer(embedder.tokenizer, embedder.config)

    def group(corpus: Corpus) -> list[list[int]]:
        query = corpus.cut(*QUERY)
        pairs = [(query, corpus.cut(*PASSAGE)) for _ in range(GROUP)]
        return [[*row.ids] for row in run_to_completion(tokenizer.encode(pairs))]

    corpus, held_out = heads.corpora(args)
    calibration = [row for _ in range(4) for row in group(held_out)]
    groups = [group(corpus) for _ in range(args.groups)]
    return heads.compare(args, "pair", folder, {"passages": groups}, calibration)


def head_tensors(width: int, _: int, noise: torch.Generator) -> heads.Tensors:
    """Return the tensors of a pooler and of one label."""
    return {
        "bert.pooler.dense.weight": torch.randn(width, width, generator=noise) * 0.05,
        "bert.pooler.dense.bias": torch.zeros(width),
        "classifier.weight": torch.randn(1, width, generator=noise) * 0.2,
        "classifier.bias": torch.zeros(1),
    }


def main() -> None:
    parser = script.parser(__doc__, "rerank")
    parser.add_argument("--groups", type=int, default=10, help="queries, each with 32 passages")
    script.main(parser, run, heads.report)


if __name__ == "__main__":
    main()
