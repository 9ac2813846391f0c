"""The names that the served model goes by."""

from service.errors import UnknownModel
from service.reading.prompts import Role

_SUFFIXES: dict[str, Role] = {"-query": "query", "-passage": "document"}  # NVIDIA NIM's
_LATEST = ":latest"


def check(asked: str, served: str) -> None:
    """Raises UnknownModel: a vector of another model than asked for helps nobody."""
    if asked != served:
        raise UnknownModel(f"no model {asked!r}; this server has {served!r}", param="model")


def check_tagged(asked: str, served: str) -> None:
    """The same of Ollama's names, where one without a tag is that with the tag latest."""
    check(asked.removesuffix(_LATEST), served.removesuffix(_LATEST))


def role_of(asked: str, served: str) -> Role | None:
    """The role that is told by a suffix of the model's name; raises UnknownModel."""
    suffix = asked.removeprefix(served)
    if suffix in _SUFFIXES and asked != suffix:
        return _SUFFIXES[suffix]
    check(asked, served)
    return None
