"""Settings of the served models and their engines, with their defaults, limits and descriptions."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt

from embedwell.settings.setting_types import (
    AdapterNames,
    CacheFolder,
    DeviceName,
    DeviceNames,
    Model,
    ModelNames,
    NamedModels,
    OptionalModel,
    OptionalPath,
    OptionalText,
    PromptTexts,
)
from embedwell_models.config.model_options import MODES, Mode, UnicodeForm
from embedwell_models.hub.bundles import BUNDLES
from embedwell_models.hub.sources import DEFAULT, default_cache

_ANY_NAME = "*"


class EngineSettings(BaseModel):
    """Settings of which models are served, by which names, and how engines compute them."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,  # only the validator of `Settings` is ever used
    )

    model: Model = Field(
        default=DEFAULT,
        description="Model: a folder, the name of a bundled model, or organisation/name on a hub.",
    )
    revision: OptionalText = Field(
        default=None, description="Commit, tag or branch of a model on a hub."
    )
    image_model: OptionalModel = Field(
        default=None,
        description=(
            "Model whose image encoder embeds images into the space of the texts, for a model of "
            "texts alone: a folder, or organisation/name on a hub."
        ),
    )
    cache: CacheFolder = Field(
        default_factory=default_cache, description="Folder for fetched models."
    )
    startup_cache: bool = Field(
        default=True,
        description=(
            "Whether to keep what a start measures (the precision of auto, the speed) in the "
            "cache folder, so that the next start on this machine takes less time."
        ),
    )
    served_name: ModelNames = Field(
        default=None,
        description=(
            "Comma-separated model names that requests may use. Responses have the first one; * "
            "accepts any name. Default: the model's or folder's name."
        ),
    )
    models: NamedModels = Field(
        default="",
        description=(
            "Several models instead of one: comma-separated NAME=SOURCE. Requests without a "
            "model's name use the first. Same as repeated --model NAME=SOURCE."
        ),
    )
    models_file: OptionalPath = Field(
        default=None,
        description="TOML file with a table for each of several models: its source and options.",
    )
    keep: Literal["always", "on_demand"] = Field(
        default="always",
        description=(
            "When to load a model: always (at the start) or on_demand (at the first request for "
            "it)."
        ),
    )
    idle_unload: NonNegativeFloat = Field(
        default=0.0,
        description=(
            "Seconds without a request after which a model that was loaded on demand is "
            "unloaded; 0: never."
        ),
    )
    max_model_bytes: NonNegativeInt = Field(
        default=0,
        description=(
            "Bytes for the weights of all loaded models. Above it, models that were loaded on "
            "demand are unloaded, the least recently used first; 0: no limit."
        ),
    )
    device: DeviceName = Field(
        default="auto",
        description="Device that computes: cpu, cuda, cuda:N, or auto (a GPU if there is one).",
    )
    devices: DeviceNames = Field(
        default="",
        description=(
            "Several devices instead of one, comma-separated, each with an engine and a copy of "
            "the model: GPUs, cuda:0,cuda:1; or NUMA nodes, cpu:0,cpu:1. One may be repeated."
        ),
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"] = Field(
        default="auto",
        description=(
            "Precision: float32, bfloat16, float16 (GPU), int8 or int4 (CPU; int4 for the least "
            "memory), or auto (the fastest on this CPU whose vectors stay close to float32; "
            "bfloat16 on a GPU that has it)."
        ),
    )
    isa: Literal[
        "auto",
        "amx",
        "bf16",
        "vnni",
        "avx512",
        "avxvnni",
        "avx2",
        "mmla",
        "dotprod",
        "neon",
        "none",
    ] = Field(
        default="auto",
        description=(
            "Highest instruction set to use: amx, bf16, vnni, avx512, avxvnni, avx2 (x86-64); "
            "mmla, dotprod, neon (ARM64); none (torch only), or auto (the best of this processor)."
        ),
    )
    pooling: Literal["auto", Mode, "splade"] = Field(
        default="auto",
        description=(
            f"Pooling of the tokens' hidden states into a vector: {', '.join(MODES)}, splade "
            "(sparse vectors of a masked language model), or auto (the one in the model's files)."
        ),
    )
    adapter: AdapterNames = Field(
        default="auto",
        description=(
            "Task of a model with adapters (Jina v3 to v5) or with other modules for queries, "
            "such as retrieval.query, or none (no adapter); language of an X-MOD, such as de_CH; "
            "auto for other models, and for the language in an X-MOD's files. With several "
            "(comma-separated) or all, a request's field task selects one, and each task has an "
            "engine."
        ),
    )
    rerank_format: Literal[
        "auto",
        "pair",
        "qwen3-reranker",
        "qwen3-vl-reranker",
        "bge-reranker-v2-gemma",
        "bge-reranker-v2.5-gemma2-lightweight",
        "mxbai-rerank-v2",
        "llama-nemotron-rerank",
    ] = Field(
        default="auto",
        description=(
            "Text format of a query and a document for a reranker: qwen3-reranker, "
            "qwen3-vl-reranker, bge-reranker-v2-gemma, bge-reranker-v2.5-gemma2-lightweight, "
            "mxbai-rerank-v2, llama-nemotron-rerank, pair (the tokenizer joins the two texts), or "
            "auto (the one in the model's files)."
        ),
    )
    unicode_normalization: UnicodeForm = Field(
        default="none",
        description=(
            "Normalisation of texts before tokenization: none, or nfc, which composes letters and "
            "their marks, for tokenizers that lose the marks of decomposed texts."
        ),
    )
    prompts: PromptTexts = Field(
        default="",
        description=(
            "Prompts in addition to the model's own, as a JSON object of names and texts: "
            '{"query": "query: ", "document": "passage: "}; the one named default is for requests '
            "without a prompt. Or published: those that the authors of a model publish, see "
            "embedwell models."
        ),
    )
    threads: int = Field(
        default=0,
        ge=0,
        le=1024,
        description=(
            "CPU threads of an engine; 0: all processors that the process may use, with quotas "
            "rounded down."
        ),
    )
    cuda_graphs: bool = Field(
        default=True,
        description=(
            "Record forward passes of small batches as CUDA graphs at start, on a GPU. They run "
            "faster, but take memory."
        ),
    )

    @property
    def name(self) -> str:
        """The model's name in responses."""
        return self.names[0]

    @property
    def names(self) -> list[str]:
        """Names by which clients may request the model, without duplicates."""
        names = self.served_name.split(",") if self.served_name else []
        return list(dict.fromkeys(name for name in names if name != _ANY_NAME)) or self._own_names()

    @property
    def any_name(self) -> bool:
        """Whether clients may request the model by any other name, too."""
        return self.served_name is not None and _ANY_NAME in self.served_name.split(",")

    @property
    def engine_names(self) -> list[str]:
        """Names of several engines: their devices, numbered if one is repeated; empty for one."""
        devices = self.devices.split(",")
        if len(devices) == 1:
            return []
        if len({*devices}) == len(devices):
            return devices
        return [f"{device}#{number}" for number, device in enumerate(devices, 1)]

    def _own_names(self) -> list[str]:
        path = Path(self.model)
        if path.is_dir():
            return [path.resolve().name]
        if self.model in BUNDLES:
            return [self.model, BUNDLES[self.model].origin]
        return list(dict.fromkeys([self.model, self.model.rpartition("/")[2]]))
