"""Every setting of the server: its name, default, limits and meaning, in one place."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from models.hub.sources import BUNDLES, DEFAULT, default_cache
from service.origins import origins

PREFIX, FILE = "EMBEDDING_", ".env"
ANY_NAME = "*"

_UNSET = BeforeValidator(lambda given: given or None)  # what is empty


def _cache(given: str | Path) -> Path:
    return Path(os.path.expanduser(given)) if str(given) else default_cache()


def _prefix(path: str) -> str:
    kept = path.strip("/")
    return f"/{kept}" if kept else ""


def _stripped(given: SecretStr) -> SecretStr:
    # A file's last line end is no part of a key, and no header could carry it.
    keys = [key.strip() for key in given.get_secret_value().split(",")]
    if not all(keys):
        raise ValueError("a key is empty; give one, or leave the setting out to serve without")
    return SecretStr(",".join(keys))


def _separated(given: str | None) -> str | None:
    names = [] if given is None else [name.strip() for name in given.split(",")]
    if not all(names):
        raise ValueError("a name is empty; give one, or leave the setting out for the model's")
    return ",".join(names) or None


def _address(host: str) -> str:
    if not host.strip():
        raise ValueError("it is empty; give an address, such as 127.0.0.1, or leave it out")
    return host.strip()


def _own(given: str | int) -> str | int:
    if str(given).startswith("tcp://"):
        raise ValueError(
            "it is an address: Kubernetes tells it of a Service named embedding; rename that, or "
            "put enableServiceLinks: false into the pod"
        )
    return given


def _hosts(names: str) -> str:
    found = [name.strip().lower().removesuffix(".") for name in names.split(",")]
    for name in filter(None, found):
        if name != "*" and not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", name):
            raise ValueError(f"{name!r} is no name of a host; give it without scheme and port")
    return ",".join(filter(None, found))


class Settings(BaseSettings):
    """Read from flags, then EMBEDDING_* environment variables, then a .env file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=FILE, extra="ignore", frozen=True, allow_inf_nan=False
    )

    model: Annotated[
        str,
        Field(
            min_length=1,
            description="Model: a folder, a bundled name, or organisation/name on a hub.",
        ),
        AfterValidator(os.path.expanduser),
    ] = DEFAULT
    revision: Annotated[
        str | None, _UNSET, Field(description="Commit, tag or branch of a hub model.")
    ] = None
    cache: Annotated[
        Path, BeforeValidator(_cache), Field(description="Folder where fetched models are kept.")
    ] = Field(default_factory=default_cache)
    served_name: Annotated[
        str | None,
        _UNSET,
        AfterValidator(_separated),
        Field(
            description="Model names, with commas between; answers say the first, and * accepts "
            "any. By default the model's, or its folder's."
        ),
    ] = None
    device: Annotated[str, Field(description="auto, cpu, cuda or cuda:N.")] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "int8"],
        Field(
            description="Precision: float32, bfloat16, float16 (GPU), int8 (CPU), or auto: the "
            "fastest of this device that stays faithful."
        ),
    ] = "auto"
    isa: Annotated[
        Literal["auto", "amx", "bf16", "vnni", "avx512", "avx2", "none"],
        Field(
            description="Highest instruction set to use: amx, bf16, vnni, avx512, avx2, none "
            "(torch alone), or auto: the best of this processor."
        ),
    ] = "auto"
    pooling: Annotated[
        Literal["auto", "mean", "cls", "lasttoken", "max", "weightedmean", "mean_sqrt_len_tokens"],
        Field(
            description="Pooling of the tokens' states into a vector: mean, cls, lasttoken, max, "
            "weightedmean, mean_sqrt_len_tokens, or auto: the one that the model's files name."
        ),
    ] = "auto"
    threads: Annotated[
        int,
        Field(ge=0, le=1024, description="CPU threads of the engine; 0: as many as allotted."),
    ] = 0

    host: Annotated[
        str,
        AfterValidator(_address),
        Field(description="Address to listen on; 0.0.0.0 is all of IPv4, :: all of IPv6."),
    ] = "127.0.0.1"
    port: Annotated[
        int, BeforeValidator(_own), Field(ge=0, le=65535, description="Port to listen on; 0: any.")
    ] = 8080
    workers: Annotated[
        int,
        Field(ge=1, le=256, description="HTTP processes; several where one cannot feed the GPU."),
    ] = 1
    root_path: Annotated[
        str, AfterValidator(_prefix), Field(description="Path prefix that a gateway strips.")
    ] = ""
    api_key: Annotated[
        Annotated[SecretStr, AfterValidator(_stripped)] | None,
        Field(
            description="If set, requests need 'Authorization: Bearer KEY'; several, with commas "
            "between, are each enough, as while one replaces another."
        ),
    ] = None
    cors_origins: Annotated[
        str,
        AfterValidator(origins),
        Field(
            description="Origins whose pages may ask from a browser, with commas between; * is any."
        ),
    ] = ""

    allowed_hosts: Annotated[
        str,
        AfterValidator(_hosts),
        Field(
            description="Names under which the server is asked for, with commas between, beside "
            "localhost and addresses; * is any. By default any; without a key and on a loopback "
            "address, the machine's name."
        ),
    ] = ""

    max_body_bytes: Annotated[PositiveInt, Field(description="Largest request body.")] = 8 << 20
    max_buffered_bytes: Annotated[
        PositiveInt,
        Field(
            description="Memory of each HTTP process for large request bodies and responses, "
            "until they are sent; beyond it 429."
        ),
    ] = 512 << 20
    max_connections: Annotated[
        PositiveInt,
        Field(description="Most connections of each HTTP process; more are answered 503."),
    ] = 1024
    receive_timeout: Annotated[
        PositiveFloat,
        Field(
            description="Give up with 408 on headers or a body that take longer, and on a client "
            "that reads nothing of its answer for so long, seconds."
        ),
    ] = 30.0
    max_texts: Annotated[PositiveInt, Field(description="Most texts in one request.")] = 2048
    max_tokens: Annotated[PositiveInt, Field(description="Most tokens in one request.")] = 300_000
    max_values: Annotated[
        PositiveInt,
        Field(description="Most numbers in an answer of token vectors, /positions or /similarity."),
    ] = 4_000_000
    auto_truncate: Annotated[
        bool, Field(description="Cut texts longer than the model reads, unless a request says no.")
    ] = True
    dimensions: Annotated[
        str,
        Field(
            pattern=r"^(declared|any|none|\d{1,9}(,\d{1,9})*)$",
            description="Lengths that clients may cut vectors to: declared (by the model), any, "
            "none, or numbers with commas between.",
        ),
    ] = "declared"
    max_batch_tokens: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 20,
            description="Most tokens in one forward pass; 0: 2048 on a CPU, and as many as make a "
            "GPU faster, measured at start. A CPU that is slow takes fewer, so that a pass lasts "
            "about 30 ms.",
        ),
    ] = 0
    vector_cache_bytes: Annotated[
        NonNegativeInt,
        Field(
            description="Memory of each HTTP process for vectors of texts that come again; 0: none."
        ),
    ] = 0
    max_wait: Annotated[
        PositiveFloat,
        Field(
            description="Refuse with 429 a request that would wait longer, seconds; one of more "
            "than 2048 tokens may wait five times as long."
        ),
    ] = 2.0
    request_timeout: Annotated[
        PositiveFloat,
        Field(description="Give up on a request with 504 after this, seconds."),
    ] = 60.0
    load_timeout: Annotated[
        PositiveFloat,
        Field(
            description="Give up loading the model after this, and try again, seconds; after five "
            "failures at the start the server ends."
        ),
    ] = 600.0
    shutdown_timeout: Annotated[
        PositiveInt, Field(description="Let running requests finish for this long, seconds.")
    ] = 30
    drain_delay: Annotated[
        NonNegativeFloat,
        Field(description="At a stop, keep serving this long with /ready at 503, seconds."),
    ] = 0.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Least severe message.")
    ] = "info"

    @property
    def name(self) -> str:
        """What the model is called in answers."""
        return self.names[0]

    @property
    def names(self) -> list[str]:
        """What clients may call the model, each name once."""
        given = self.served_name.split(",") if self.served_name else []
        return list(dict.fromkeys(name for name in given if name != ANY_NAME)) or self._own_names()

    @property
    def any_name(self) -> bool:
        """Whether clients may call the model by any other name, too."""
        return self.served_name is not None and ANY_NAME in self.served_name.split(",")

    def _own_names(self) -> list[str]:
        path = Path(self.model)
        if path.is_dir():
            return [path.resolve().name]
        if self.model in BUNDLES:
            return [self.model, BUNDLES[self.model].origin]
        return list(dict.fromkeys([self.model, self.model.rpartition("/")[2]]))

    @property
    def keys(self) -> list[str]:
        """Each is enough; with none, none is needed."""
        return self.api_key.get_secret_value().split(",") if self.api_key is not None else []


def malformed_line(file: str = FILE) -> int | None:
    """Number of the first line of a .env file that sets nothing, and is no comment.

    Left out silently, a line whose quote is not closed would take a setting with it: a key.
    """
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as stream:
        for line in parse_stream(stream):
            if line.error or (line.key is not None and line.value is None):
                return line.original.line
    return None


def unknown(environment: Mapping[str, str]) -> list[str]:
    """Names in the environment and the file that look like settings and are none."""
    return sorted(
        name
        for name in environment.keys() | dotenv_values(FILE).keys()
        if name.upper().startswith(PREFIX)
        and name.upper().removeprefix(PREFIX).lower() not in Settings.model_fields
    )
