"""Download of models from the Hugging Face Hub with its own client."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from embedwell_models.errors import ModelError

_PATTERNS = [
    *("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.metadata"),
    "bpe.codes",  # PhoBERT's files
]
PICKLED_HEADS = ("sparse_linear.pt", "colbert_linear.pt")
"""Published files of BGE-M3's layers for sparse and multi-vector outputs."""
_ACCESS_HINT = "; one that is not public needs a token in HF_TOKEN"
_NETWORK_HINT = "; HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy"

log = logging.getLogger(__name__)


def log_fetch(model: str, fetch: Callable[[], Path]) -> Path:
    """Call `fetch`, which returns the folder with all files of the model, and return the folder."""
    log.info("%s is being fetched", model)
    start = time.monotonic()
    folder = fetch()
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    megabytes, seconds = sum(sizes) / 1e6, time.monotonic() - start
    log.info(
        "%s is fetched: %d files, %.1f MB, after %.1f s", model, len(sizes), megabytes, seconds
    )
    return folder


def fetch(
    model: str,
    revision: str | None,
    cache: Path,
    pickled: Sequence[str] = (),
    exported: Sequence[str] = (),
) -> Path:
    """Return the folder of organisation/name; the first use fetches it into the client's cache.

    pickled: folders inside the model whose torch.save weights are fetched too. exported: files in
    ONNX that are fetched too, with the files of their weights.

    A fetched model is not fetched again, so that vectors do not change with the branch and the hub
    may be down. An interrupted download is continued. The client reads HF_TOKEN and HF_ENDPOINT:
    https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables

    Raises ModelError if the model cannot be fetched.
    """
    weights = [(PurePosixPath(part) / "pytorch_model*.bin").as_posix() for part in pickled]
    weights += PICKLED_HEADS if pickled else ()
    weights += [f"{name}*" for name in exported]
    return _snapshot(model, revision, cache, [*_PATTERNS, *weights])


def file_names(model: str, commit: str) -> list[str]:
    """List the files of organisation/name; raises ModelError as `fetch` does."""
    from huggingface_hub import HfApi

    try:
        return HfApi().list_repo_files(model, revision=commit)
    except Exception as error:
        raise _unavailable(model, error) from None


def fetch_config(model: str, cache: Path) -> Path:
    """Return config.json of organisation/name; the first use fetches this file alone.

    cache: one of such files, where no model is taken for whole. Raises ModelError as `fetch` does.
    """
    return _snapshot(model, None, cache, ["config.json"]) / "config.json"


def _snapshot(model: str, revision: str | None, cache: Path, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    snapshot = partial(
        snapshot_download, model, revision=revision, cache_dir=cache, allow_patterns=patterns
    )
    try:
        return Path(snapshot(local_files_only=True))
    except LocalEntryNotFoundError:
        pass  # the cache lacks the model or a part of it
    except ValueError as error:
        raise ModelError(f"{model!r} is not a name of a model: {error}") from None
    try:
        return log_fetch(model, lambda: Path(snapshot()))
    except Exception as error:  # raised by the client, by httpx or xet, or by the disk
        raise _unavailable(model, error) from None


def _unavailable(model: str, error: Exception) -> ModelError:
    return ModelError(f"{model!r} could not be fetched from the hub: {_message(error)}")


def _message(error: Exception) -> str:
    from huggingface_hub.errors import LocalEntryNotFoundError

    # The client raises this error in place of the one of the network, and keeps that as its cause.
    cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
    response = getattr(error, "response", None)
    denied = response is not None and response.status_code in (401, 403)
    hint = _NETWORK_HINT if cause else _ACCESS_HINT * denied
    # On one line: the last line of a command that failed has the whole reason.
    return " ".join(f"{cause or error}".split()) + hint
