"""Worker: Infinity's reranker on torch in float32, called as in its server."""

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import torch
from infinity_emb.args import EngineArgs
from infinity_emb.transformer.crossencoder.torch import CrossEncoderPatched

from benchmarks.peers.graph import split_pairs
from benchmarks.peers.protocol import Floats, Ids, Job, pad, serve


class Infinity:
    """Infinity's reranker, from token ids to logits."""

    modes = ("padded",)
    padded = True

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        arguments = EngineArgs(
            model_name_or_path=job.folder, engine="torch", device="cpu", bettertransformer=False
        )
        self._model: Any = CrossEncoderPatched(engine_args=arguments)
        self.about = {"infinity": version("infinity_emb"), "torch": torch.__version__}

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        return [self._logits(rows) for rows in work]

    def _logits(self, rows: Sequence[Ids]) -> Floats:
        ids, mask = (torch.from_numpy(part) for part in pad(rows))
        features = split_pairs(ids, self._model.model.config.vocab_size) | {"attention_mask": mask}
        logits: Floats = self._model.encode_core(features).numpy()
        return logits


if __name__ == "__main__":
    serve(Infinity)
