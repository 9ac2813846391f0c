"""Every setting of the server, with its default, its limits and its meaning."""

from pathlib import Path
from typing import Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from embedwell.settings.setting_types import (
    AdapterNames,
    Address,
    ApiKeys,
    CacheFolder,
    CutLengths,
    HostNames,
    Model,
    ModelNames,
    NamedModels,
    OptionalPath,
    OptionalText,
    Origins,
    PathPrefix,
    Port,
)
from embedwell_models.hub.sources import BUNDLES, DEFAULT, default_cache
from embedwell_models.sentence_transformers.pooling import MODES, Mode

PREFIX, FILE = "EMBEDWELL_", ".env"
ALL_ADAPTERS = "all"
_ANY_NAME = "*"


class Settings(BaseSettings):
    """Read from flags, then EMBEDWELL_* environment variables, then a .env file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=FILE, extra="ignore", frozen=True, allow_inf_nan=False
    )

    model: Model = Field(
        default=DEFAULT,
        description="Model: a folder, a bundled name, or organisation/name on a hub.",
    )
    revision: OptionalText = Field(
        default=None, description="Commit, tag or branch of a hub model."
    )
    cache: CacheFolder = Field(
        default_factory=default_cache, description="Folder where fetched models are kept."
    )
    served_name: ModelNames = Field(
        default=None,
        description="Model names, with commas between; answers say the first, and * accepts "
        "any. By default the model's, or its folder's.",
    )
    models: NamedModels = Field(
        default="",
        description="Several models in place of one: NAME=SOURCE, with commas between. The first "
        "is used for requests that name none. --model NAME=SOURCE, repeated, says the same.",
    )
    models_file: OptionalPath = Field(
        default=None,
        description="TOML file of several models, each a table with its source and options.",
    )
    keep: Literal["always", "on_demand"] = Field(
        default="always",
        description="When a model is loaded: always, from the start, or on_demand, with the first "
        "request for it.",
    )
    idle_unload: NonNegativeFloat = Field(
        default=0.0,
        description="Unload a model that is loaded on demand after so long without a request, "
        "seconds; 0: never.",
    )
    max_model_bytes: NonNegativeInt = Field(
        default=0,
        description="Memory for the weights of all loaded models. Beyond it, those loaded on "
        "demand are unloaded, the least recently used first; 0: no limit.",
    )
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N.")
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8"] = Field(
        default="auto",
        description="Precision: float32, bfloat16, float16 (GPU), int8 (CPU), or auto: the "
        "fastest of this device that stays faithful.",
    )
    isa: Literal["auto", "amx", "bf16", "vnni", "avx512", "avx2", "none"] = Field(
        default="auto",
        description="Highest instruction set to use: amx, bf16, vnni, avx512, avx2, none "
        "(torch alone), or auto: the best of this processor.",
    )
    pooling: Literal["auto", Mode, "splade"] = Field(
        default="auto",
        description=f"Pooling of the tokens' states into a vector: {', '.join(MODES)}, splade "
        "(sparse vectors of a masked language model), or auto: the one that the model's files "
        "name.",
    )
    adapter: AdapterNames = Field(
        default="auto",
        description="Task for which a model with adapters (Jina v3) computes vectors, such as "
        "retrieval.query, or none; auto for a model without adapters. Several, with commas "
        "between, or all: the field task of a request chooses, and each has an engine.",
    )
    rerank_format: Literal[
        "auto",
        "pair",
        "qwen3-reranker",
        "qwen3-vl-reranker",
        "bge-reranker-v2-gemma",
        "mxbai-rerank-v2",
    ] = Field(
        default="auto",
        description="Text in which a reranker reads a query and a document, and a language model "
        "as a reranker: qwen3-reranker, qwen3-vl-reranker, bge-reranker-v2-gemma, "
        "mxbai-rerank-v2, pair (as the tokenizer joins two texts), or auto: as the model's files "
        "say.",
    )
    threads: int = Field(
        default=0, ge=0, le=1024, description="CPU threads of the engine; 0: as many as allotted."
    )

    host: Address = Field(
        default="127.0.0.1",
        description="Address to listen on; 0.0.0.0 is all of IPv4, :: all of IPv6.",
    )
    port: Port = Field(default=8080, description="Port to listen on; 0: any.")
    workers: int = Field(
        default=1,
        ge=1,
        le=256,
        description="HTTP processes; several where one cannot feed the GPU.",
    )
    root_path: PathPrefix = Field(default="", description="Path prefix that a gateway strips.")
    api_key: ApiKeys | None = Field(
        default=None,
        description="If set, requests need 'Authorization: Bearer KEY'; several, with commas "
        "between, are each enough, as while one replaces another.",
    )
    admin_key: ApiKeys | None = Field(
        default=None,
        description="Enables the routes that load and unload models, for requests with "
        "'Authorization: Bearer KEY'; it is also accepted in place of the API key.",
    )
    cors_origins: Origins = Field(
        default="",
        description="Origins whose pages may ask from a browser, with commas between; * is any.",
    )
    allowed_hosts: HostNames = Field(
        default="",
        description="Names under which the server is asked for, with commas between, beside "
        "localhost and addresses; * is any. By default any; without a key and on a loopback "
        "address, the machine's name.",
    )
    playground: bool = Field(default=True, description="Whether to serve the page /playground.")

    max_body_bytes: PositiveInt = Field(default=8 << 20, description="Largest request body.")
    max_buffered_bytes: PositiveInt = Field(
        default=512 << 20,
        description="Memory of each HTTP process for large request bodies and responses, "
        "until they are sent; beyond it 429.",
    )
    max_connections: PositiveInt = Field(
        default=1024, description="Most connections of each HTTP process; more are answered 503."
    )
    receive_timeout: PositiveFloat = Field(
        default=30.0,
        description="Give up with 408 on headers or a body that take longer, and on a client "
        "that reads nothing of its answer for so long, seconds.",
    )
    max_texts: PositiveInt = Field(default=2048, description="Most texts in one request.")
    max_tokens: PositiveInt = Field(default=300_000, description="Most tokens in one request.")
    max_image_pixels: PositiveInt = Field(
        default=1 << 24,
        description="Most pixels of an image, of a model that embeds images; while one is decoded, "
        "each takes up to 15 bytes, and a process decodes two at once.",
    )
    max_values: PositiveInt = Field(
        default=4_000_000,
        description="Most numbers in an answer of token vectors, /positions or /similarity.",
    )
    auto_truncate: bool = Field(
        default=True, description="Cut texts longer than the model reads, unless a request says no."
    )
    dimensions: CutLengths = Field(
        default="declared",
        description="Lengths that clients may cut vectors to: declared (by the model), any, "
        "none, or numbers with commas between.",
    )
    max_batch_tokens: int = Field(
        default=0,
        ge=0,
        le=1 << 20,
        description="Most tokens in one forward pass; 0: 2048 on a CPU, and as many as make a "
        "GPU faster, measured at start. A CPU that is slow takes fewer, so that a pass lasts "
        "about 30 ms.",
    )
    vector_cache_bytes: NonNegativeInt = Field(
        default=0,
        description="Memory of each HTTP process for vectors of texts that come again; 0: none.",
    )
    batch_folder: OptionalPath = Field(
        default=None,
        description="Folder for the files and batches of /v1/files and /v1/batches, which are "
        "refused without it. Servers do not share one.",
    )
    batch_max_file_bytes: PositiveInt = Field(
        default=200 << 20, description="Largest file of requests that a client may upload."
    )
    batch_max_bytes: PositiveInt = Field(
        default=10 << 30, description="Most that all files of batches may take on the disk."
    )
    batch_retention: PositiveFloat = Field(
        default=30.0, description="Delete files and finished batches after so many days."
    )
    max_wait: PositiveFloat = Field(
        default=2.0,
        description="Refuse with 429 a request that would wait longer, seconds; one of more "
        "than 2048 tokens may wait five times as long.",
    )
    request_timeout: PositiveFloat = Field(
        default=60.0, description="Give up on a request with 504 after this, seconds."
    )
    load_timeout: PositiveFloat = Field(
        default=600.0,
        description="Give up loading the model after this, and try again, seconds; after five "
        "failures at the start the server ends.",
    )
    shutdown_timeout: PositiveInt = Field(
        default=30, description="Let running requests finish for this long, seconds."
    )
    drain_delay: NonNegativeFloat = Field(
        default=0.0, description="At a stop, keep serving this long with /ready at 503, seconds."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe message."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Lines of the log: text, or json, an object on each line."
    )
    tracing: bool = Field(
        default=False,
        description="Send OpenTelemetry traces of requests over OTLP; OTEL_EXPORTER_OTLP_ENDPOINT "
        "says where to. Needs the extra otel.",
    )

    @property
    def name(self) -> str:
        """The model's name in responses."""
        return self.names[0]

    @property
    def names(self) -> list[str]:
        """The names by which clients may request the model, without duplicates."""
        names = self.served_name.split(",") if self.served_name else []
        return list(dict.fromkeys(name for name in names if name != _ANY_NAME)) or self._own_names()

    @property
    def any_name(self) -> bool:
        """Whether clients may request the model by any other name, too."""
        return self.served_name is not None and _ANY_NAME in self.served_name.split(",")

    def _own_names(self) -> list[str]:
        path = Path(self.model)
        if path.is_dir():
            return [path.resolve().name]
        if self.model in BUNDLES:
            return [self.model, BUNDLES[self.model].origin]
        return list(dict.fromkeys([self.model, self.model.rpartition("/")[2]]))

    @property
    def keys(self) -> list[str]:
        """The API keys, any of which is accepted; without keys every request is."""
        return _split(self.api_key)

    @property
    def admin_keys(self) -> list[str]:
        """The keys that may load and unload models, if any."""
        return _split(self.admin_key)


def _split(keys: SecretStr | None) -> list[str]:
    return keys.get_secret_value().split(",") if keys is not None else []
