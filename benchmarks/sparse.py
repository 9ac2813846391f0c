"""Compare sparse vectors of this engine with other engines on the same token ids, in turn.

The model is the default model's encoder with a random masked-language-model head, like a SPLADE
model. The texts are passages of Python's manual.
"""

import argparse
from typing import Any

import torch

from benchmarks import heads, script
from benchmarks.heads import GROUP, PASSAGE
from deploy.loadtest.corpus import Corpus
from embedwell_models import Embedder

_BIAS = -4.4  # makes about 1 % of the weights positive


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    config = {"architectures": ["BertForMaskedLM"]}
    folder = heads.write_model(args, "splade", config, head_tensors)
    embedder = Embedder.load(folder, dtype="float32", device="cpu", pooling="splade")

    def group(corpus: Corpus) -> list[list[int]]:
        return embedder.tokenize([corpus.cut(*PASSAGE) for _ in range(GROUP)])

    corpus, held_out = heads.corpora(args)
    calibration = [row for _ in range(4) for row in group(held_out)]
    groups = [group(corpus) for _ in range(args.groups)]
    return heads.compare(args, "splade", folder, {"passages": groups}, calibration)


def head_tensors(width: int, words: int, noise: torch.Generator) -> heads.Tensors:
    """Return the tensors of a masked-language-model head, whose last matrix is the token table."""
    return {
        "cls.predictions.transform.dense.weight": torch.randn(width, width, generator=noise) * 0.05,
        "cls.predictions.transform.dense.bias": torch.zeros(width),
        "cls.predictions.transform.LayerNorm.weight": torch.ones(width),
        "cls.predictions.transform.LayerNorm.bias": torch.zeros(width),
        "cls.predictions.bias": torch.full((words,), _BIAS),
    }


def main() -> None:
    parser = script.parser(__doc__, "sparse")
    parser.add_argument("--groups", type=int, default=4, help="each of 32 passages")
    script.main(parser, run, heads.report)


if __name__ == "__main__":
    main()
