"""Every setting of the server, with its default, limits and description."""

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

from embedwell.settings.engine_settings import EngineSettings
from embedwell.settings.setting_types import (
    Address,
    ApiKeys,
    CutLengths,
    Duration,
    HostNames,
    OptionalPath,
    Origins,
    PathPrefix,
    Port,
)
from embedwell_models.config.model_options import OPTION_NAMES, ModelOptions
from embedwell_models.hub.sources import resolve

PREFIX, FILE = "EMBEDWELL_", ".env"
BATCH_LOCK_FILE = "lock"
"""Name of the file of batch_folder that the process locks which computes the batches."""
ALL_ADAPTERS = "all"
GROUPS = {
    "model": "Model",
    "device": "Engine",
    "host": "Address and access",
    "max_body_bytes": "Limits",
    "auto_truncate": "Vectors",
    "max_wait": "Times",
    "log_level": "Log and traces",
}
"""The titles of groups of settings, by the first setting of each."""


class Settings(EngineSettings):
    """The settings: each is a flag, an EMBEDWELL_* variable, or a line of a .env file."""

    host: Address = Field(
        default="127.0.0.1",
        description="Address to listen on; 0.0.0.0 for all of IPv4, :: for all of both families.",
    )
    port: Port = Field(default=8080, description="Port to listen on; 0: any free port.")
    unix_socket: OptionalPath = Field(
        default=None,
        description=(
            "Path of a Unix socket to listen on, to which only this user can connect. Then the "
            "server listens on TCP only if the host or the port is set, too."
        ),
    )
    workers: int = Field(
        default=0,
        ge=0,
        le=256,
        description=(
            "Number of HTTP processes; 0: one for every 4 processors, for every 2 with a GPU; "
            "at most 8, and 1 on systems other than Linux."
        ),
    )
    root_path: PathPrefix = Field(default="", description="Path prefix that a gateway strips.")
    api_key: ApiKeys | None = Field(
        default=None,
        description=(
            "If set, requests need 'Authorization: Bearer KEY'. Of several comma-separated keys, "
            "each is accepted, so that one can replace another."
        ),
    )
    admin_key: ApiKeys | None = Field(
        default=None,
        description=(
            "Enables the routes that load and unload models, for requests with 'Authorization: "
            "Bearer KEY'. It is also accepted instead of the API key."
        ),
    )
    cors_origins: Origins = Field(
        default="",
        description=(
            "Comma-separated origins whose pages may send requests, besides pages of localhost, "
            "desktop programs and browser extensions; * for any."
        ),
    )
    allowed_hosts: HostNames = Field(
        default="",
        description=(
            "Comma-separated host names of the server that requests may use, besides localhost "
            "and IP addresses; * for any. Default: any; without a key and on a loopback address, "
            "the machine's name and names that end in .internal, .local or .localhost."
        ),
    )
    playground: bool = Field(default=True, description="Whether to serve the page /playground.")

    max_body_bytes: PositiveInt = Field(
        default=8 << 20, description="Maximum bytes of a request body."
    )
    max_buffered_bytes: PositiveInt = Field(
        default=512 << 20,
        description=(
            "Bytes of each HTTP process for large request bodies and responses until they are "
            "sent; above it 429."
        ),
    )
    max_connections: PositiveInt = Field(
        default=1024,
        description=(
            "Maximum connections of each HTTP process. A further one replaces the connection that "
            "is idle longest; if none is, it gets 503, except for health checks."
        ),
    )
    receive_timeout: PositiveFloat = Field(
        default=30.0,
        description=(
            "Seconds for headers or a body to arrive, then 408. Also the seconds after which the "
            "connection of a client that does not read its response is closed."
        ),
    )
    max_texts: PositiveInt = Field(default=2048, description="Maximum texts of a request.")
    max_tokens: PositiveInt = Field(default=300_000, description="Maximum tokens of a request.")
    max_image_pixels: PositiveInt = Field(
        default=1 << 24,
        description=(
            "Maximum pixels of an image, for a model that embeds images. Decoding takes up to 15 "
            "bytes per pixel; a process decodes up to this number for each of two requests at once."
        ),
    )
    max_values: PositiveInt = Field(
        default=4_000_000,
        description="Maximum numbers in a response of token vectors, /positions or /similarity.",
    )
    auto_truncate: bool = Field(
        default=True,
        description=(
            "Whether to truncate texts that are longer than the model reads, unless a request "
            "decides otherwise."
        ),
    )
    raw_token_ids: bool = Field(
        default=False,
        description=(
            "Whether to accept token ids without the model's special tokens around them. They are "
            "refused by default, because they are often ids of another tokenizer."
        ),
    )
    dimensions: CutLengths = Field(
        default="declared",
        description=(
            "Dimensions to which clients may truncate vectors: declared (by the model), any, "
            "none, or comma-separated numbers."
        ),
    )
    max_batch_tokens: int = Field(
        default=0,
        ge=0,
        le=1 << 20,
        description=(
            "Maximum tokens of a forward pass; 0: 2048 on a CPU, and on a GPU the fastest "
            "number, measured at start. A slow CPU computes fewer, so that a pass takes about 30 "
            "ms."
        ),
    )
    vector_cache_bytes: NonNegativeInt = Field(
        default=0,
        description="Bytes of each HTTP process for a cache of vectors; 0: no cache.",
    )
    batch_folder: OptionalPath = Field(
        default=None,
        description=(
            "Folder for the files and batches of /v1/files and /v1/batches; without it these "
            "routes are disabled. Give each server a folder of its own."
        ),
    )
    batch_max_file_bytes: PositiveInt = Field(
        default=200 << 20, description="Maximum bytes of a file of requests that a client uploads."
    )
    batch_max_bytes: PositiveInt = Field(
        default=10 << 30, description="Maximum bytes of all files of batches on the disk."
    )
    batch_retention: PositiveFloat = Field(
        default=30.0, description="Days after which files and finished batches are deleted."
    )
    max_wait: PositiveFloat = Field(
        default=2.0,
        description=(
            "Maximum expected seconds that a request waits, above it 429: min(a, 2 * b), with a "
            "the seconds for the whole queue and b the seconds for the queued requests that are "
            "no larger. For requests of at most 2048 tokens."
        ),
    )
    max_wait_large: PositiveFloat = Field(
        default=120.0,
        description=(
            "The same for requests of more tokens, such as lists of texts. No small request waits "
            "for them."
        ),
    )
    request_timeout: PositiveFloat = Field(
        default=120.0, description="Seconds until a response, then 504."
    )
    load_timeout: PositiveFloat = Field(
        default=600.0,
        description=(
            "Seconds to load the model; then loading is tried again. After five failures at the "
            "start the server ends."
        ),
    )
    shutdown_timeout: PositiveInt = Field(
        default=30, description="Seconds for running requests to finish when the server stops."
    )
    drain_delay: NonNegativeFloat = Field(
        default=0.0,
        description=(
            "Seconds for which the server continues to serve after a signal to stop, with /ready "
            "at 503."
        ),
    )
    idle_exit: Duration = Field(
        default=0.0,
        description=(
            "Seconds after which the server ends if no request came and none is running, such as "
            "900 or 15m; 0 or none: never. Health checks and /metrics are not counted."
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level of messages in the log."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Format of the log: text, or json (an object on each line)."
    )
    tracing: bool = Field(
        default=False,
        description=(
            "Whether to send OpenTelemetry traces of requests over OTLP, to "
            "OTEL_EXPORTER_OTLP_ENDPOINT. Needs the extra otel."
        ),
    )
    otlp_metrics: bool = Field(
        default=False,
        description=(
            "Whether to send the metrics of /metrics over OTLP, too, each minute or "
            "OTEL_METRIC_EXPORT_INTERVAL milliseconds. Needs the extra otel."
        ),
    )

    def find_model(self) -> Path:
        """Return the folder of the model; the first use fetches it. Raises ModelError."""
        return resolve(self.model, self.options, self.cache)

    @property
    def listens_on_tcp(self) -> bool:
        """Whether to listen on the host and the port, and not only on a Unix socket."""
        chosen = self.unix_socket is None or bool({"host", "port"} & self.model_fields_set)
        return chosen and bool(self.host)

    @property
    def options(self) -> ModelOptions:
        """The options of the model."""
        return ModelOptions(**{name: getattr(self, name) for name in OPTION_NAMES})

    @property
    def keys(self) -> list[str]:
        """The API keys, each of which grants access; without keys every request is accepted."""
        return _split(self.api_key)

    @property
    def admin_keys(self) -> list[str]:
        """The keys that grant loading and unloading of models, if any."""
        return _split(self.admin_key)


def _split(keys: SecretStr | None) -> list[str]:
    return keys.get_secret_value().split(",") if keys is not None else []
