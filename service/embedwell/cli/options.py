"""Settings of a command: its options, the environment and the .env file, and mistakes in these."""

import os
import shlex
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from embedwell.settings.model_settings import model_settings
from embedwell.settings.settings import FILE, PREFIX, Settings
from embedwell_models.config.model_options import OPTION_NAMES
from embedwell_models.encoder.device import torch_is_installed
from embedwell_models.errors import TORCH_MISSING, ModelError

if TYPE_CHECKING:
    from embedwell_models.embedder import Embedder


MODEL = ("model", "revision", "image_model", "cache")
ENGINE = tuple(name for name in OPTION_NAMES if name not in (*MODEL, "max_batch_tokens"))

F = TypeVar("F", bound=Callable[..., Any])
_DISTRIBUTION = "embedwell"

TEXT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write; it must not exist.",
)


def decorate(command: F, *decorators: Callable[[F], F]) -> F:
    """Decorate a command, the first decorator outermost, so that --help lists options in order."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def check_urls(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the address of a server, or several; raises BadParameter for another scheme."""
    for url in [value] if isinstance(value, str) else value or ():
        if not url.startswith(("http://", "https://")):
            raise click.BadParameter(f"{url}: the address must begin with http:// or https://")
    return value


def options(*names: str) -> Callable[[F], F]:
    """Click options for settings, all of them by default; help and defaults come from Settings."""
    several = not names  # models of serve
    chosen = [_option(name, several) for name in names or Settings.model_fields]
    return lambda command: decorate(command, *chosen)


def default_text(name: str) -> str:
    """Return the default of a setting as a user writes it; "" if there is none."""
    default = Settings.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default is None else str(default)


def _option(name: str, several: bool) -> Callable[[F], F]:
    field = Settings.model_fields[name]
    default = field.get_default(call_default_factory=True)
    shown = f"  [default: {text}]" if (text := default_text(name)) else ""
    kind = click.BOOL if isinstance(default, bool) else None
    number = isinstance(default, int | float) and kind is None
    return click.option(
        *(f"--{name.replace('_', '-')}", name),
        type=kind,
        metavar="true|false" if kind else "NUMBER" if number else None,
        help=f"{field.description}{shown}",
        multiple=name == "model" and several,
    )


def read(flags: dict[str, Any]) -> Settings:
    """Read settings from flags, environment and file.

    flags: settings, and `named`, the model as an argument, if the command has one.
    Raises UsageError, whose message names the flag or variable, the file, and the value.
    """
    flags = dict(flags)
    if named := flags.pop("named", None):
        if flags.get("model"):
            raise click.UsageError(f"give {named} or --model {flags['model']}, not both")
        flags["model"] = named
    try:
        if has_byte_order_mark():
            raise click.UsageError(
                f"./{FILE} begins with a byte order mark (BOM), so that its first setting would "
                "have no effect: save it as UTF-8 without BOM"
            )
        if line := malformed_line():
            raise click.UsageError(
                f"./{FILE}, line {line}: write NAME=value; a quote that is opened must be closed"
            )
        given: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
        return Settings(**{**read_variables(), **given})
    except UnicodeDecodeError:
        raise click.UsageError(f"./{FILE} is not UTF-8; save it in that encoding") from None
    except OSError as error:
        raise click.UsageError(f"./{FILE} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        lines = [_problem(problem, flags) for problem in error.errors(include_url=False)]
        raise click.UsageError("\n".join(lines)) from None


def _problem(problem: ErrorDetails, flags: dict[str, Any]) -> str:
    name = str(problem["loc"][0])
    source = setting_source(name, flags)
    message = problem["msg"].removeprefix("Value error, ").partition(", unable to parse")[0]
    if "SecretStr" in str(Settings.model_fields[name].annotation):  # never shown
        return f"{source}: {message}"
    return f"{source}: {problem['input']!r}: {message}"


def read_models(flags: dict[str, Any]) -> tuple[Settings, list[Settings]]:
    """Read the settings of a server and of each of its models; raises UsageError."""
    sources = (*flags.pop("named", ()), *(flags.pop("model", None) or ()))
    named = [model for model in sources if "=" in model and not Path(model).is_dir()]
    plain = [model for model in sources if model not in named]
    if len(plain) > 1 or (plain and named):
        raise click.UsageError(f"{plain[-1]}: with several models, give each as NAME=SOURCE")
    if named and flags.get("models"):
        raise click.UsageError("give models as NAME=SOURCE, or --models, not both")
    if plain:
        for several in ("models", "models_file"):
            if flags.get(several):
                flag = several.replace("_", "-")
                raise click.UsageError(f"give {plain[0]}, or --{flag}, not both")
        flags |= {"model": plain[0], "models": "", "models_file": ""}  # not those of a variable
    settings = read(flags | ({"models": ",".join(named)} if named else {}))
    try:
        return settings, model_settings(settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def model_folder(settings: Settings) -> Path:
    """Fetch the model if need be: the path of its folder. Raises ClickException."""
    try:
        return settings.find_model()
    except ModelError as error:
        variable = variable_with_value("model", settings.model)
        raise click.ClickException(f"{variable}: {error}" if variable else str(error)) from None


def load_embedder(settings: Settings) -> "Embedder":
    """Load the model with its tokenizer; raises ClickException."""
    from embedwell.engine.worker.load import load

    try:
        return load(model_folder(settings), settings.options)
    except ModelError as error:
        raise click.ClickException(str(error)) from None


def require(extra: str, *modules: str) -> None:
    """Check that modules are installed; raises ClickException, which says how to install the extra.

    The pip of this Python finds this distribution installed. Another pip might take one of the same
    name from an index.
    """
    if missing := [module for module in modules if not _is_installed(module)]:
        verb = "is" if len(missing) == 1 else "are"
        raise click.ClickException(
            f"{', '.join(missing)} {verb} not installed: {install_command(extra)}"
        )


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra next to this program."""
    return f"{shlex.quote(sys.executable)} -m pip install '{_DISTRIBUTION}[{extra}]'"


def require_torch() -> None:
    """Check that PyTorch is installed, without importing it; raises ClickException."""
    if not torch_is_installed():
        raise click.ClickException(TORCH_MISSING)


def require_tracing() -> None:
    """Check that the packages that send traces are installed; raises ClickException."""
    require("otel", "opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # no parent package; a module that is None
        return False


_OF_TEI = {
    "MODEL_ID": "model",
    "API_KEY": "api_key",
}  # ignored, they change the model or protection


def settings_in_file(file: str = FILE) -> set[str]:
    """Names of the settings that a .env file sets."""
    names = (name.upper() for name in dotenv_values(file))
    return {name.removeprefix(PREFIX).lower() for name in names if name.startswith(PREFIX)}


def has_byte_order_mark(file: str = FILE) -> bool:
    """Whether a .env file begins with a mark that makes its first name another one."""
    if not os.path.isfile(file):
        return False
    with open(file, "rb") as stream:
        return stream.read(len(BOM_UTF8)) == BOM_UTF8


def malformed_line(file: str = FILE) -> int | None:
    """Number of the first line of a .env file that neither sets a variable nor is a comment.

    Silently ignored, a line with an unclosed quote would leave a setting unset, such as the key.
    """
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as stream:
        for line in parse_stream(stream):
            if line.error or (line.key is not None and line.value is None):
                return line.original.line
    return None


def unknown_settings(environment: Mapping[str, str]) -> list[str]:
    """Names in the environment and the .env file that have the prefix and are not settings."""
    return sorted(
        name
        for name in environment.keys() | dotenv_values(FILE).keys()
        if name.upper().startswith(PREFIX)
        and name.upper().removeprefix(PREFIX).lower() not in Settings.model_fields
    )


def settings_of_tei(environment: Mapping[str, str], settings: Settings) -> list[tuple[str, str]]:
    """Pair variables of text-embeddings-inference with the unset ones that are needed here."""
    return [
        (name, f"{PREFIX}{ours.upper()}")
        for name, ours in _OF_TEI.items()
        if name in environment and ours not in settings.model_fields_set
    ]


def advice(name: str) -> str:
    """Say what to do about a variable that is not a setting."""
    setting = name.upper().removeprefix(PREFIX).lower()
    similar = get_close_matches(setting, Settings.model_fields, n=1)
    known = [f"did you mean {PREFIX}{each.upper()}?" for each in similar]
    return known[0] if known else "see embedwell serve --help"


def read_variables() -> dict[str, str]:
    """Return the values of the settings that the environment or the .env file sets."""
    return {name: value for name, (value, _) in _variables().items()}


def setting_source(name: str, flags: Mapping[str, Any]) -> str:
    """Name the source of a setting for a message: `--port`, or `EMBEDWELL_PORT in ./.env`."""
    variable = _variables().get(name)
    if flags.get(name) is None and variable:
        return variable[1]
    return f"--{name.replace('_', '-')}"


def variable_with_value(name: str, value: str) -> str | None:
    """Name the variable that gave a setting its value, and its place; None for a flag."""
    text, source = _variables().get(name, ("", None))
    return source if text == value else None


def _variables() -> dict[str, tuple[str, str]]:
    """Find each setting's value, and its variable and place; the environment comes first."""
    variables = {}
    for values, place in (dotenv_values(FILE), f"./{FILE}"), (os.environ, "the environment"):
        for variable, value in values.items():
            upper = variable.upper()
            name = upper.removeprefix(PREFIX).lower()
            if upper.startswith(PREFIX) and name in Settings.model_fields and value is not None:
                variables[name] = (value, f"{upper} in {place}")
    return variables
