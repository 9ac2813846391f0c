"""Remote code (`auto_map`) of models, which is never run: a family replaces it, or it is refused.

Code of decoders is also known by its name to be bidirectional.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError

_BIDIRECTIONAL = Path(__file__).with_name("bidirectional_code.toml")
_PLAMO = (
    "what PLaMo-Embedding-1B computes, which tokens it pools, and how its tokenizer splits words"
)
_COLEMBED = "into how many tiles it cuts an image, and which text it puts around them"
_ONLY_CODE: Mapping[str, str] = {  # model_type or class -> facts that only the code tells
    "jasper_vl": "how Jasper reads texts and images, and which of its matrices follow the pooling",
    "LlamaNemotronColEmbedVLModel": _COLEMBED,
    "llama_NemoRetrieverColEmbed": _COLEMBED,
    "plamo": _PLAMO,
    "PlamoBiModel": _PLAMO,
}


def refuse_undescribed(options: JsonConfig) -> None:
    """Raise ModelError, with the reason, for a model that only its own code describes."""
    names = [options.get("model_type", ""), *options.get("architectures", [])]
    for name in names:
        if name in _ONLY_CODE:
            raise ModelError(
                f"{options.path}: {name} is not supported: only code of the model, which is not "
                f"run, says {_ONLY_CODE[name]}"
            )


def refuse_unknown_code(options: JsonConfig, replaced: Sequence[str]) -> None:
    """Raise ModelError if config.json names remote code that is not among the replaced classes.

    A decoder with `is_causal` in config.json is accepted, and one whose code is known to be
    bidirectional.
    """
    code = options.get("auto_map", {}).get("AutoModel")
    if code is None or "is_causal" in options or bidirectional_code(options):
        return
    if str(code).rpartition(".")[2] not in replaced:
        raise options.unsupported(
            "auto_map", {"AutoModel": code}, f"{replaced}; code of a model is not run"
        )


def bidirectional_code(options: JsonConfig) -> str:
    """Name a decoder's own code if it is known to let each token see the whole text; "" otherwise.

    Examples are LLM2Vec (BehnamGhader et al. 2024, arXiv 2404.05961) and DRAMA (Ma et al. 2025,
    arXiv 2502.18460). It is "" as well if config.json has `is_causal`.
    """
    if "is_causal" in options:
        return ""
    known_class, repositories = _known_code()
    code = str(options.get("auto_map", {}).get("AutoModel", ""))
    named, _, path = code.rpartition("--")
    for name in (path.rpartition(".")[2], *options.get("architectures", ())):
        if known_class.fullmatch(name):
            return str(name)
    known = (each for each in repositories if each == named or _is_of(each, options.path, code))
    return min(known, default="")


def _is_of(repository: str, config: Path, code: str) -> bool:
    # Whether the path of a config.json has a folder of a repository: models--organisation--name of
    # the hub's cache, organisation--name, organisation/name, or name if the file names own code.
    parts = (
        part.removeprefix("models--").replace("--", "/", 1) for part in config.absolute().parts
    )
    path = "/".join(parts)
    names = (repository, repository.rpartition("/")[2]) if code else (repository,)
    return any(f"/{name}/" in path for name in names)


@cache
def _known_code() -> tuple[re.Pattern[str], frozenset[str]]:
    # The classes and the repositories in the data file.
    known = tomllib.loads(_BIDIRECTIONAL.read_text(encoding="utf-8"))
    return re.compile("|".join(known["classes"])), frozenset(known["repositories"])
