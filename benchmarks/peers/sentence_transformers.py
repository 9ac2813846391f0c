"""Worker: sentence-transformers on torch in float32, the reference for all vectors."""

from collections.abc import Iterable, Sequence
from typing import Any

import sentence_transformers
import torch

from benchmarks.peers.graph import split_pairs
from benchmarks.peers.protocol import Floats, Ids, Job, pad, serve

_CLASSES = {
    "mean": "SentenceTransformer",
    "pair": "CrossEncoder",
    "splade": "SparseEncoder",
    "colbert": "MultiVectorEncoder",
}
_OUTPUTS = {"colbert": "token_embeddings", "pair": "scores"}


class Reference:
    """Reference model, from token ids to vectors."""

    modes = ("padded",)
    padded = True

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        loader: Any = getattr(sentence_transformers, _CLASSES[job.head])
        self._head, self._model = job.head, loader(job.folder, device="cpu").eval()
        self.about = {
            "sentence-transformers": sentence_transformers.__version__,
            "torch": torch.__version__,
        }

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        return [self._forward(rows) for rows in work]

    @torch.inference_mode()
    def _forward(self, rows: Sequence[Ids]) -> Floats:
        ids, mask = (torch.from_numpy(part) for part in pad(rows))
        features = {"input_ids": ids, "attention_mask": mask}
        if self._head == "pair":
            features |= split_pairs(ids, self._model.config.vocab_size)
        if self._head == "colbert":
            features["attention_mask"] = mask * (ids != self._model.tokenizer.mask_token_id)
        output = self._model(features)[_OUTPUTS.get(self._head, "sentence_embedding")]
        vectors: Floats = output.reshape(len(rows), *output.shape[1:] or [1]).numpy()
        return vectors


if __name__ == "__main__":
    serve(Reference)
