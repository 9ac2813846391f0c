"""Options of a model: its source, its device and precision, and how it reads texts."""

import re
from dataclasses import dataclass, fields
from typing import Literal, get_args

from embedwell_models.errors import ModelError

AUTO = "auto"
"""Choice of the pooling or the format of pairs that the model's files state."""
Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
MODES: tuple[str, ...] = get_args(Mode)
"""Names of the poolings."""
PAIR = "pair"
"""No format of pairs: the tokenizer joins two texts."""
RERANK_FORMATS = (
    "qwen3-reranker",
    "qwen3-vl-reranker",
    "bge-reranker-v2-gemma",
    "bge-reranker-v2.5-gemma2-lightweight",
    "mxbai-rerank-v2",
    "llama-nemotron-rerank",
)
"""Published formats of rerankers that are language models."""
RERANK_CHOICES = (AUTO, PAIR, *RERANK_FORMATS)
UnicodeForm = Literal["none", "nfc"]
"""Normalisation of texts before their tokenization: none, or letters composed with their marks."""
UNICODE_FORMS: tuple[str, ...] = get_args(UnicodeForm)
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,4})?")


def why_unsupported_device(name: str) -> str:
    """Return why a name (auto, cpu, cuda, cuda:N) is not that of a supported device; "" if it is.

    With other devices of torch, such as mps and xpu, the host may read a copy that has not ended.
    """
    if _DEVICE.fullmatch(name):
        return ""
    return (
        f"the device {name!r} is not supported: give auto, cpu, cuda or cuda:N "
        "(cuda is also an AMD GPU)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """Options with which a model is loaded, for most of which see `Embedder.load`.

    A server has a setting of the same name and default for each, and hands the record over to its
    engines. threads: of an engine, 0 for one on each available processor. max_batch_tokens: maximum
    tokens of a forward pass; 0 to let the engine choose.
    """

    revision: str | None = None
    image_model: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    isa: str = "auto"
    pooling: str = "auto"
    rerank_format: str = "auto"
    adapter: str = "auto"
    unicode_normalization: str = "none"
    threads: int = 0
    cuda_graphs: bool = True
    max_batch_tokens: int = 0

    def __post_init__(self) -> None:
        """Raise ModelError for a device that is not supported."""
        if why := why_unsupported_device(self.device):
            raise ModelError(why)


DEFAULT_OPTIONS = ModelOptions()
OPTION_NAMES = tuple(field.name for field in fields(ModelOptions))
"""Names of the options, in order."""
