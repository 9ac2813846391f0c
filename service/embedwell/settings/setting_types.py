"""Types of settings that are checked or normalised when they are read; addresses to listen on."""

import json
import os
import re
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeFloat, SecretStr

from embedwell_models.config.model_options import why_unsupported_device
from embedwell_models.hub.sources import default_cache

PUBLISHED_PROMPTS = "published"
"""Value of the setting for the prompts that a model's authors publish."""
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]+))?")
_PORTS = {"http": "80", "https": "443"}
_LAST_PORT = 65535
_DEVICE = re.compile(r"cpu(:\d{1,4})?|cuda:\d{1,4}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def _cache_folder(path: str | Path) -> Path:
    return Path(path).expanduser() if str(path) else default_cache()


def _expanded(path: Path | None) -> Path | None:
    return path and path.expanduser()


def _path_prefix(path: str) -> str:
    stripped = path.strip("/")
    return f"/{stripped}" if stripped else ""


def _api_keys(keys: SecretStr) -> SecretStr:
    # Keys are often read from files that end in a newline, which a header cannot contain.
    stripped = [key.strip() for key in keys.get_secret_value().split(",")]
    if not all(stripped):
        raise ValueError("a key is empty; give one, or leave the setting out to serve without")
    return SecretStr(",".join(stripped))


def _named_models(text: str) -> str:
    pairs = [pair.partition("=") for pair in filter(None, map(str.strip, text.split(",")))]
    for name, equals, source in pairs:
        if not (name.strip() and equals and source.strip()):
            raise ValueError(
                f"{name + equals + source!r} is not NAME=SOURCE; give several with commas between"
            )
    return ",".join(f"{name.strip()}={source.strip()}" for name, _, source in pairs)


def _model_names(names: str | None) -> str | None:
    stripped = [] if names is None else [name.strip() for name in names.split(",")]
    if not all(stripped):
        raise ValueError("a name is empty; give one, or leave the setting out for the model's")
    return ",".join(stripped) or None


def _adapter_names(names: str) -> str:
    stripped = [name.strip() for name in names.split(",")]
    if not all(stripped):
        raise ValueError("a task is empty; give one, or leave the setting out")
    return ",".join(dict.fromkeys(stripped))


def _device_name(name: str) -> str:
    if why := why_unsupported_device(name):
        raise ValueError(why)
    return name


def _device_names(names: str) -> str:
    devices = [name.strip() for name in names.split(",")] if names.strip() else []
    for device in devices:
        if not _DEVICE.fullmatch(device):
            raise ValueError(
                f"{device!r} is not a device; give cuda:N, cpu:N or cpu, with commas between"
            )
    if len({device.partition(":")[0] for device in devices}) > 1:
        raise ValueError("give processors or GPUs: their vectors of a text differ")
    return ",".join(devices)


def _address(host: str) -> str:
    if not host.strip():
        raise ValueError("an address is missing; give one, such as 127.0.0.1, or leave it out")
    return host.strip()


def _port(port: str | int) -> str | int:
    if str(port).startswith("tcp://"):
        raise ValueError(
            "this is an address: Kubernetes sets it for a Service named embedwell; rename that, or "
            "put enableServiceLinks: false into the pod"
        )
    if not re.fullmatch(r"\s*\d{1,5}\s*", str(port)) or int(port) > _LAST_PORT:
        raise ValueError(f"not a port; give a number from 0 (any free port) to {_LAST_PORT}")
    return port


def _seconds(text: str | float) -> str | float:
    """Return the seconds of a text with a unit; numbers are checked by their type."""
    if text == "none":
        return 0.0
    if isinstance(text, str) and (match := _DURATION.fullmatch(text.strip())):
        return float(match[1]) * _SECONDS[match[2]]
    with suppress(ValueError):
        float(text)
        return text
    raise ValueError("give seconds, or a number with s, m, h or d, such as 15m; none for never")


def _host_names(names: str) -> str:
    hosts = [name.strip().lower().removesuffix(".") for name in names.split(",")]
    for host in filter(None, hosts):
        if host != "*" and not _HOST_NAME.fullmatch(host):
            raise ValueError(f"{host!r} is not a host name; give it without scheme and port")
    return ",".join(filter(None, hosts))


def _origins(origins: str) -> str:
    if origins.strip() in ("", "*"):
        return origins.strip()
    return ",".join(_origin(origin.strip()) for origin in origins.split(","))


def _origin(text: str) -> str:
    # Browsers send it in lower case and without a default port:
    # https://www.rfc-editor.org/rfc/rfc6454#section-6.2
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        raise ValueError(
            f"{text!r} is not an origin; give scheme://host or scheme://host:port, several with "
            "commas between, or * alone"
        )
    scheme, host, port = match.groups()
    is_default = port is None or port == _PORTS.get(scheme)
    return f"{scheme}://{host}" if is_default else f"{scheme}://{host}:{port}"


def _prompt_texts(text: str) -> str:
    if text in ("", PUBLISHED_PROMPTS):
        return text
    try:
        prompts = json.loads(text)
    except ValueError:
        prompts = None
    if not isinstance(prompts, dict) or not all(isinstance(each, str) for each in prompts.values()):
        raise ValueError(
            f"give {PUBLISHED_PROMPTS}, or a JSON object of names and texts, such as "
            '{"query": "query: ", "document": "passage: "}'
        )
    return text


_EMPTY_IS_UNSET = BeforeValidator(lambda text: text or None)

OptionalText = Annotated[str | None, _EMPTY_IS_UNSET]
Model = Annotated[str, Field(min_length=1), AfterValidator(os.path.expanduser)]
OptionalModel = Annotated[
    str | None, _EMPTY_IS_UNSET, AfterValidator(lambda model: model and os.path.expanduser(model))
]
ModelNames = Annotated[str | None, _EMPTY_IS_UNSET, AfterValidator(_model_names)]
AdapterNames = Annotated[str, AfterValidator(_adapter_names)]
DeviceName = Annotated[str, AfterValidator(_device_name)]
DeviceNames = Annotated[str, AfterValidator(_device_names)]
NamedModels = Annotated[str, AfterValidator(_named_models)]
OptionalPath = Annotated[Path | None, _EMPTY_IS_UNSET, AfterValidator(_expanded)]
CacheFolder = Annotated[Path, BeforeValidator(_cache_folder)]
Address = Annotated[str, AfterValidator(_address)]
Port = Annotated[int, BeforeValidator(_port)]
PathPrefix = Annotated[str, AfterValidator(_path_prefix)]
Duration = Annotated[NonNegativeFloat, BeforeValidator(_seconds)]
ApiKeys = Annotated[SecretStr, AfterValidator(_api_keys)]
HostNames = Annotated[str, AfterValidator(_host_names)]
Origins = Annotated[str, AfterValidator(_origins)]
PromptTexts = Annotated[str, AfterValidator(_prompt_texts)]
CutLengths = Annotated[str, Field(pattern=r"^(declared|any|none|\d{1,9}(,\d{1,9})*)$")]


def is_ip_address(name: str) -> bool:
    """Return whether a name is an IP address rather than the name of a host."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on."""
    return host == "localhost" or (is_ip_address(host) and ip_address(host).is_loopback)


def is_wildcard(host: str) -> bool:
    """Return whether an address to listen on is 0.0.0.0 or ::, all of the machine's."""
    return is_ip_address(host) and ip_address(host).is_unspecified


def address_to_ask(host: str) -> str:
    """The address of a URL for a server that listens on a host, from the same machine.

    A wildcard is not an address that every client can connect to: browsers and other systems
    refuse 0.0.0.0.
    """
    if is_wildcard(host):
        return "[::1]" if ":" in host else "127.0.0.1"
    return f"[{host}]" if ":" in host else host
