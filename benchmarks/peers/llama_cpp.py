"""Worker: llama.cpp's library, without its server."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llama_cpp
import numpy as np

from benchmarks.peers.gguf_model import gguf_file
from benchmarks.peers.protocol import Floats, Ids, Job, Refused, batches, serve

# Attention takes time for each pair of tokens in a pass, also for tokens of different texts.
_MOST_TOKENS = 1024
_MOST_TEXTS = 256  # LLAMA_MAX_SEQ
_FILES = {"float32": "float32", "int8": "q8_0"}  # by the precision of the products


class LlamaCpp:
    """llama.cpp with one context on all cores, or (streams) one context on each core."""

    modes = ("whole", "streams", "whole flash", "streams flash")
    padded = False

    def __init__(self, job: Job) -> None:
        llama_cpp.llama_backend_init()
        path = gguf_file(job.cache, job.folder, _FILES[job.precision])
        model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        if not model:
            raise Refused(f"llama.cpp cannot load {path}")
        threads = {"whole": [job.threads], "streams": [1] * job.threads}
        self._contexts = {
            mode: [
                Context(model, count, flash="flash" in mode) for count in threads[mode.split()[0]]
            ]
            for mode in self.modes
        }
        self._pool = ThreadPoolExecutor(job.threads)
        self.about = {
            "llama-cpp-python": llama_cpp.__version__,
            "system": llama_cpp.llama_print_system_info().decode(),
        }

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        contexts = list(self._contexts[mode])  # each is used by one thread during a pass
        if len(contexts) == 1:
            return [contexts[0].encode(rows) for rows in work]

        def run(rows: Sequence[Ids]) -> Floats:
            context = contexts.pop()
            try:
                return context.encode(rows)
            finally:
                contexts.append(context)

        longest_first = list(self._pool.map(run, reversed(work)))
        return reversed(longest_first)


class Context:
    """A context of the library with its input batch."""

    def __init__(self, model: Any, threads: int, *, flash: bool) -> None:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = _MOST_TOKENS
        params.n_seq_max = _MOST_TEXTS
        params.n_threads = params.n_threads_batch = threads
        params.embeddings = True
        params.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if flash
            else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self._context: Any = llama_cpp.llama_init_from_model(model, params)
        if not self._context:
            raise Refused("llama.cpp makes no context; see the log")
        self._width = llama_cpp.llama_model_n_embd(model)
        self._batch = llama_cpp.llama_batch_init(_MOST_TOKENS, 0, 1)
        shape = (_MOST_TOKENS,)
        self._tokens = np.ctypeslib.as_array(self._batch.token, shape)
        self._places = np.ctypeslib.as_array(self._batch.pos, shape)
        self._counts = np.ctypeslib.as_array(self._batch.n_seq_id, shape)
        self._outputs = np.ctypeslib.as_array(self._batch.logits, shape)
        self._counts[:] = self._outputs[:] = 1

    def encode(self, rows: Sequence[Ids]) -> Floats:
        """Return the normalised vectors of texts, in as few passes as fit the context."""
        vectors: Floats = np.empty((len(rows), self._width), dtype=np.float32)
        for part in batches([len(row) for row in rows], _MOST_TOKENS, padded=False):
            for start in range(0, len(part), _MOST_TEXTS):
                indices = part[start : start + _MOST_TEXTS]
                vectors[indices] = self._pass([rows[i] for i in indices])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _pass(self, rows: Sequence[Ids]) -> Floats:
        lengths = [len(row) for row in rows]
        count = sum(lengths)
        self._batch.n_tokens = count
        self._tokens[:count] = np.concatenate(rows)
        self._places[:count] = np.concatenate([np.arange(length) for length in lengths])
        for place, number in enumerate(np.repeat(np.arange(len(rows)), lengths).tolist()):
            self._batch.seq_id[place][0] = number
        if llama_cpp.llama_encode(self._context, self._batch):
            raise RuntimeError("llama.cpp failed; see the log")
        pooled = [llama_cpp.llama_get_embeddings_seq(self._context, i) for i in range(len(rows))]
        return np.stack([np.ctypeslib.as_array(row, (self._width,)) for row in pooled])


if __name__ == "__main__":
    serve(LlamaCpp)
