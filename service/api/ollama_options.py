"""Ollama's options: how a model is loaded and how it writes, which changes no vector but by one."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from service.errors import BadRequest

_LOADING = (
    *("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock"),
    *("numa", "low_vram", "f16_kv", "logits_all", "vocab_only", "embedding_only"),
)
_WRITING = (
    *("num_keep", "num_predict", "draft_num_predict", "seed", "temperature", "stop"),
    *("top_k", "top_p", "min_p", "tfs_z", "typical_p", "penalize_newline", "repeat_last_n"),
    *("repeat_penalty", "presence_penalty", "frequency_penalty"),
    *("mirostat", "mirostat_tau", "mirostat_eta"),
)
_KNOWN = frozenset(_LOADING + _WRITING)

Options = Annotated[
    dict[str, Any], Field(json_schema_extra={"propertyNames": {"enum": sorted(_KNOWN)}})
]
"""By their names."""


def check_options(options: Mapping[str, Any], length: int) -> None:
    """Raises BadRequest for an unknown option, and for a context shorter than the model's.

    Ollama cuts texts there. length: tokens that the model reads.
    """
    unknown = next((name for name in options if name not in _KNOWN), None)
    if unknown is not None:
        where = f"options.{unknown}"
        raise BadRequest(f"unknown field {where!r}", code="unknown_field", param=where)
    context = options.get("num_ctx")
    if context is not None and not (isinstance(context, int) and context >= length):
        raise BadRequest(
            f"options.num_ctx is {context!r}: the model reads {length} tokens, and fewer cannot be "
            "asked for; leave it out, and cut the texts yourself",
            code="not_offered",
            param="options.num_ctx",
        )
