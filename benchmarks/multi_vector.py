"""Compare the token vectors of this engine with other engines on the same token ids, in turn.

The model is the default model's encoder with a random projection to 128 dimensions, as in ColBERT.
The texts are passages of Python's manual in groups of 32, and queries of a few words that are
expanded to 32 tokens.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks import heads, script
from benchmarks.heads import GROUP, PASSAGE, QUERY
from embedwell_models import Embedder
from embedwell_models.model_files.multi_vector import TextRole

_DIM = 128
_LENGTHS = {"query_maxlen": 32, "doc_maxlen": 300}


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    folder = heads.write_model(args, "colbert", {"architectures": ["HF_ColBERT"]}, head_tensors)
    (folder / "artifact.metadata").write_text(json.dumps(_LENGTHS), encoding="utf-8")
    embedder = Embedder.load(folder, dtype="float32", device="cpu")
    corpus, held_out = heads.corpora(args)

    def groups(role: TextRole, words: tuple[int, int]) -> list[list[list[int]]]:
        texts = ([corpus.cut(*words) for _ in range(GROUP)] for _ in range(args.groups))
        return [token_ids(embedder, each, role) for each in texts]

    calibration = token_ids(embedder, [held_out.cut(*PASSAGE) for _ in range(100)], "document")
    work = {"documents": groups("document", PASSAGE), "queries": groups("query", QUERY)}
    return heads.compare(args, "colbert", folder, work, calibration)


def token_ids(embedder: Embedder, texts: Sequence[str], role: TextRole) -> list[list[int]]:
    """Return the ids of queries or documents, as in Embedder.embed_tokens."""
    rules = embedder.multi_vector
    assert rules is not None
    prompt = embedder.recipe.prompts[role]
    rows = [row.ids for row in embedder.tokenizer.encode([prompt + text for text in texts])]
    limit = rules.max_length(role)
    cut = [embedder.tokenizer.truncate(row, max_length=limit).ids for row in rows]
    return [[*rules.expand(row, role)] for row in cut]


def head_tensors(width: int, _: int, noise: torch.Generator) -> heads.Tensors:
    """Return the tensors of a projection of each token."""
    return {"linear.weight": torch.randn(_DIM, width, generator=noise) * 0.05}


def main() -> None:
    parser = script.parser(__doc__, "multi_vector")
    parser.add_argument("--groups", type=int, default=4, help="of 32 texts each")
    script.main(parser, run, heads.report)


if __name__ == "__main__":
    main()
