"""Measure sentence-transformers, and the layers of transformers alone, on the same device.

python -m deploy.gpu.peers [SECONDS]

The results are in engine.jsonl. Texts of a batch have similar lengths; the result is that of the
fastest batch size.
"""

import random
import sys
import time
from pathlib import Path

import torch

from deploy.gpu.device import CUDA, DEVICE, DTYPE
from deploy.gpu.random_models import model_folder
from deploy.gpu.results import append_line, brief
from deploy.loadtest.corpus import Corpus

WORDS = ((7, 4096), (90, 2048), (400, 512)) if CUDA else ((7, 16),)
"""Words of a text, and the number of texts."""

BATCH_SIZES = (32, 128, 512) if CUDA else (8,)
LENGTHS = (10, 100, 400) if CUDA else (10,)
BATCH_TOKENS = (4096, 16384, 65536) if CUDA else (64,)
_SECONDS = 0.3  # of a measurement


def report(run: str, length: int, texts: int, tokens: int, seconds: float) -> None:
    """Append the rates of `texts` texts in so many seconds."""
    line = {
        "run": run,
        "length": length,
        "texts": texts,
        "tokens": tokens,
        "tokens_per_s": round(tokens / seconds),
        "texts_per_s": round(texts / seconds),
    }
    append_line("engine.jsonl", line)


def sentence_transformers(name: str, folder: Path, end: float) -> None:
    """Measure sentence-transformers from text to vectors, until `end`."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device=DEVICE, model_kwargs={"dtype": DTYPE})
    corpus = Corpus(random.Random(0))
    for words, count in WORDS:
        texts = [corpus.cut(words, words) for _ in range(count)]
        ids = model.tokenizer(texts, truncation=True)["input_ids"]
        times = []
        for size in BATCH_SIZES:
            for _ in range(2):
                start = time.perf_counter()
                model.encode(texts, batch_size=size, show_progress_bar=False)
                times.append(time.perf_counter() - start)
            if time.monotonic() > end:
                break
        run = f"sentence-transformers, with tokenizing: {name}"
        report(run, words, count, sum(map(len, ids)), min(times))


def layers_alone(name: str, folder: Path, end: float) -> None:
    """Measure the layers of transformers on texts of equal length, until `end`."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, dtype=DTYPE, attn_implementation="sdpa")
    model.to(DEVICE).eval()

    @torch.inference_mode()
    def seconds(count: int, length: int) -> float:
        ids = torch.randint(1000, 29000, (count, length), device=DEVICE)
        mask = torch.ones_like(ids)
        passes = -1  # the first is not counted
        while True:
            states = model(input_ids=ids, attention_mask=mask).last_hidden_state
            states.float().mean(dim=1).cpu()
            passes += 1
            if passes == 0:
                start = time.perf_counter()
            elif time.perf_counter() - start > _SECONDS:
                return (time.perf_counter() - start) / passes

    for length in LENGTHS:
        if time.monotonic() > end:
            break
        counts = [max(1, tokens // length) for tokens in BATCH_TOKENS]
        times = {count: seconds(count, length) for count in counts}
        best = min(times, key=lambda count: times[count] / count)
        run = f"layers of transformers, no padding: {name}"
        report(run, length, best, best * length, times[best])


def main() -> None:
    end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 80)
    failed = False
    for name in ("minilm", "bge-base"):
        folder = model_folder(name)
        for peer in (layers_alone, sentence_transformers):
            if time.monotonic() > end:
                break
            try:
                peer(name, folder, end)
            except Exception as error:  # the others are measured all the same
                failed = True
                line = {"run": f"{peer.__name__}: {name}", "failed": brief(error)}
                append_line("engine.jsonl", line)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
