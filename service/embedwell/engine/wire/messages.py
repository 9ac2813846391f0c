"""Messages between the HTTP processes and the engine process."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell.engine.wire.engine_sockets import MessageToSend
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE

TokenIds = npt.NDArray[np.int32]

SIZE_CLASSES = 16
"""Number of size classes of requests; the scheduler serves smaller ones sooner."""
_QUERY_TOKENS = 64  # requests of up to this many tokens are in the first class


def size_class(tokens: int) -> int:
    """Return the size class: 0 for a query, and one more for each doubling of the tokens."""
    return min(((max(tokens, 1) - 1) // _QUERY_TOKENS).bit_length(), SIZE_CLASSES - 1)


def size_class_limit(size: int) -> int:
    """Return the maximum tokens of a size class; the last class is in fact unlimited."""
    return _QUERY_TOKENS << size


IMAGE = "image"
"""The output of a job of images: a dense vector for each."""

CONTENT = "content"
"""The output of a job of texts with images: a dense vector for each, see `pack_content`."""

_INPUT_PARTS = ("token", "position", "segment")


def is_hidden_state(output: str | int) -> bool:
    """Return whether an output is hidden states, one for each token."""
    return isinstance(output, int) or output in _INPUT_PARTS


@dataclass(slots=True)
class Job:
    """Token ids of texts, or pixels of images, whose vectors the engine computes.

    output: DENSE, one vector per text; hidden states after a number of layers, or a summand of the
        input embeddings ('token', 'position', 'segment'); IMAGE; CONTENT; or names of
        `output_names`, joined by '+'.
    texts_ids: token ids of each text, an image, see `pack_pixels`, or a text with images or a page,
        see `pack_content`.
    prompt_token_counts: leading tokens of each text that are not pooled; () for none.
    size_class: class of the whole request, which may be several jobs.
    created_at: time.perf_counter, which all processes of a machine share.
    exclusive: whether to compute nothing else at the same time; such a job has one text.
    image_tokens: tokens of each image, text with images or page; 0 for texts.
    """

    output: str | int
    texts_ids: FlatRows
    prompt_token_counts: Sequence[int] = ()
    size_class: int = 0
    created_at: float = field(default_factory=time.perf_counter, compare=False)
    exclusive: bool = False
    image_tokens: int = 0

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text or image."""
        if self.image_tokens:
            return [self.image_tokens] * len(self.texts_ids)
        return self.texts_ids.lengths

    @property
    def tokens(self) -> int:
        """Total tokens of all texts."""
        return sum(self.lengths)

    @property
    def is_packed(self) -> bool:
        """Whether each text's result is one column of several outputs."""
        return self.output not in (DENSE, IMAGE, CONTENT) and not is_hidden_state(self.output)


@dataclass(slots=True)
class Result:
    """Vectors of a job: dense (B, D), or concatenated hidden states of all texts (T, D).

    queue_us: microseconds until its first batch starts.
    compute_us: microseconds from then until its last batch ends.
    rate: tokens per second of the fully loaded engine.
    row_counts: for other outputs, which are packed to one column, the number of rows of each text.
    cached: number of vectors that came from the cache.
    """

    vectors: npt.NDArray[np.float32]
    queue_us: int
    compute_us: int
    rate: float
    row_counts: Sequence[int] = ()
    cached: int = 0

    def split(self) -> list[npt.NDArray[np.float32]]:
        """Return the rows of each text: (rows, D)."""
        stops = accumulate(self.row_counts or [1] * len(self.vectors), initial=0)
        return [self.vectors[start:stop] for start, stop in pairwise(stops)]


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a job failed.

    index: index of the text that caused it.
    finite: False if the vector contained NaN or infinity.
    """

    message: str
    index: int
    finite: bool = True


Jobs = Sequence[tuple[int, Job]]
Results = Sequence[tuple[int, Result | Failure]]


def pack_pixels(pixels: npt.NDArray[np.uint8]) -> TokenIds:
    """Store an image (height, width, 3) as token ids: its height, its width, and its pixels."""
    return np.concatenate([np.array(pixels.shape[:2], dtype=np.int32), _four_in_one(pixels)])


def _four_in_one(pixels: npt.NDArray[np.uint8]) -> TokenIds:
    return np.frombuffer(pixels.tobytes() + bytes(-pixels.size % 4), dtype=np.int32)


def unpack_pixels(packed: TokenIds) -> npt.NDArray[np.uint8]:
    """Restore an image: (height, width, 3)."""
    height, width = packed[:2].tolist()
    return packed[2:].view(np.uint8)[: 3 * height * width].reshape(height, width, 3)


def pack_content(ids: TokenIds, images: Sequence[npt.NDArray[np.uint8]]) -> TokenIds:
    """Store a text with images (height, width, 3) as one row of ids.

    Before the token ids and the pixels are their numbers: of the ids, of the images, and the height
    and width of each image.
    """
    sizes = [length for image in images for length in image.shape[:2]]
    header = np.array([len(ids), len(images), *sizes], dtype=np.int32)
    return np.concatenate([header, ids, *map(_four_in_one, images)], dtype=np.int32)


def unpack_content(packed: TokenIds) -> tuple[TokenIds, list[npt.NDArray[np.uint8]]]:
    """Restore the token ids and the images."""
    count, images = packed[:2].tolist()
    sizes = packed[2 : 2 + 2 * images].reshape(-1, 2).tolist()
    start = 2 + 2 * images + count
    ids, pixels = packed[start - count : start], packed[start:].view(np.uint8)
    restored, end = list[npt.NDArray[np.uint8]](), 0
    for height, width in sizes:
        size = height * width * 3
        restored.append(pixels[end : end + size].reshape(height, width, 3))
        end += -(-size // 4) * 4
    return ids, restored


def pack_jobs(jobs: Jobs) -> MessageToSend:
    """Build one message of numbered jobs."""
    header = [
        (
            *(number, job.output, job.texts_ids.lengths, job.prompt_token_counts),
            *(job.size_class, job.created_at, job.exclusive, job.image_tokens),
        )
        for number, job in jobs
    ]
    return ["jobs", header], *[job.texts_ids.ids for _, job in jobs]


def unpack_jobs(headers: Iterable[Any], body: Any) -> Iterator[tuple[int, Job]]:
    """Parse numbered jobs.

    headers: the message header without its type.
    """
    flat = np.frombuffer(body, dtype=np.int32)
    start = 0
    for number, output, lengths, *rest in headers:
        stop = start + sum(lengths)
        yield number, Job(output, FlatRows(flat[start:stop], lengths), *rest)
        start = stop


def pack_results(results: Results) -> MessageToSend:
    """Build one message of numbered results and failures."""
    header = [
        (number, result.message, result.index, result.finite)
        if isinstance(result, Failure)
        else (
            *(number, result.vectors.shape, result.queue_us, result.compute_us, result.rate),
            result.row_counts,
        )
        for number, result in results
    ]
    parts = [result.vectors.data for _, result in results if isinstance(result, Result)]
    return ["results", header], *parts


def unpack_results(headers: Iterable[Any], body: Any) -> list[tuple[int, Result | Failure]]:
    """Parse numbered results and failures.

    headers: the message header without its type.
    """
    flat, results = np.frombuffer(body, dtype=np.float32), list[tuple[int, Result | Failure]]()
    start = 0
    for number, *fields in headers:
        if len(fields) == 3:
            results.append((number, Failure(*fields)))
            continue
        (rows, dim), *numbers = fields
        stop = start + rows * dim
        results.append((number, Result(flat[start:stop].reshape(rows, dim), *numbers)))
        start = stop
    return results


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Properties of a loaded engine.

    trials: how each tried precision compares with float32.
    measured_at: time of the trials and of the choice of max_batch_tokens, in seconds since 1970.
    max_batch_tokens: the configured limit or what fits of it, or the best one by measurement.
    kernels: instruction set of the compiled kernels; None without them.
    torch: what torch computes of the model; None if it takes no part.
    labels: labels of a model that reranks or classifies, whose vectors are their logits; None
        otherwise.
    outputs: outputs of a text, by the names of embedwell_models.outputs.names.
    image_dtype: precision of the image encoder; None without one.
    graphs: whether CUDA graphs are in use and why not, the batch shapes whose recording failed, and
        the kernels of a GPU.
    """

    dim: int
    max_length: int
    num_layers: int
    max_positions: int
    vocab_size: int
    pooling: list[str]
    normalize: bool
    family: str
    device: str
    dtype: str
    trials: list[dict[str, Any]]
    threads: int
    max_batch_tokens: int
    fingerprint: str
    kernels: str | None
    labels: list[str] | None = None
    outputs: Sequence[str] = (DENSE,)
    image_dtype: str | None = None
    graphs: dict[str, Any] | None = None
    measured_at: int = 0
    torch: str | None = None
