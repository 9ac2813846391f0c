"""Worker: sentence-transformers on torch in float32, the reference of every vector."""

from collections.abc import Iterable, Sequence

import sentence_transformers
import torch

from deploy.benchmark.peers.batching import Floats, Ids, pad
from deploy.benchmark.peers.protocol import Job, serve


class Reference:
    """The modules of a SentenceTransformer, from token ids to vectors."""

    modes = ("padded",)
    padded = True

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self._model = sentence_transformers.SentenceTransformer(job.folder, device="cpu").eval()
        self.about = {
            "sentence-transformers": sentence_transformers.__version__,
            "torch": torch.__version__,
        }

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        return [self._forward(rows) for rows in work]

    @torch.inference_mode()
    def _forward(self, rows: Sequence[Ids]) -> Floats:
        ids, mask = (torch.from_numpy(part) for part in pad(rows))
        found = self._model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
        vectors: Floats = found.numpy()
        return vectors


if __name__ == "__main__":
    serve(Reference)
