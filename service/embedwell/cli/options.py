"""Options of commands that are settings, and the model that they name."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from embedwell.cli.env_file import (
    has_byte_order_mark,
    malformed_line,
    read_variables,
    setting_source,
    variable_with_value,
)
from embedwell.settings.model_settings import model_settings
from embedwell.settings.settings import FILE, Settings
from embedwell_models.errors import ModelError

if TYPE_CHECKING:  # imported when a model is loaded
    from embedwell_models.embedder import Embedder

MODEL = ("model", "revision", "image_model", "cache")
ENGINE = ("device", "dtype", "isa", "pooling", "rerank_format", "adapter", "threads", "cuda_graphs")

F = TypeVar("F", bound=Callable[..., Any])


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

    def decorate(command: F) -> F:
        for name in reversed(names or tuple(Settings.model_fields)):
            field = Settings.model_fields[name]
            default = field.get_default(call_default_factory=True)
            shown = "" if default in (None, "") else f"  [default: {default}]"
            flag = f"--{name.replace('_', '-')}"
            kind = click.BOOL if isinstance(default, bool) else None
            number = isinstance(default, int | float) and kind is None
            metavar = "true|false" if kind else "NUMBER" if number else None
            text = f"{field.description}{shown}"
            command = click.option(
                *(flag, name),
                type=kind,
                metavar=metavar,
                help=text,
                multiple=name == "model" and not names,  # of serve
            )(command)
        return command

    return decorate


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
    message = problem["msg"].removeprefix("Value error, ")
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
        return load(model_folder(settings), settings)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
