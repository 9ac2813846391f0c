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
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.onnx")
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
    """Return the folder of organisation/name; the first use fetches it into `cache`.

    pickled: folders inside the model whose torch.save weights are fetched too. exported: files in
    ONNX that are fetched too, with the files of their weights.

    A fetched model is not fetched again, so that vectors do not change with the branch and the hub
    may be down. An interrupted download is continued. A model that another program has fetched
    into the client's own cache (HF_HOME) stays there, where that program may fetch a newer commit
    of the branch. The client reads HF_TOKEN and HF_ENDPOINT:
    https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables

    Raises ModelError if the model cannot be fetched.
    """
    weights = [(PurePosixPath(part) / "pytorch_model*.bin").as_posix() for part in pickled]
    weights += PICKLED_HEADS if pickled else ()
    weights += [f"{name}*" for name in exported]
    patterns = [*_PATTERNS, *weights]
    return (
        _local_snapshot(model, revision, cache, patterns)
        or _shared_snapshot(model, revision, patterns)
        or _download(model, revision, cache, patterns)
    )


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
    place = model, None, cache, ["config.json"]
    return (_local_snapshot(*place) or _download(*place)) / "config.json"


def _local_snapshot(
    model: str, revision: str | None, cache: Path | str, patterns: list[str]
) -> Path | None:
    """Return the folder of a model in a cache; None if the cache lacks it or a part of it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            model,
            revision=revision,
            cache_dir=cache,
            allow_patterns=patterns,
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{model!r} is not a name of a model: {error}") from None
    return Path(folder)


def _shared_snapshot(model: str, revision: str | None, patterns: list[str]) -> Path | None:
    """Return the folder of a model in the cache that other programs fill.

    They may have fetched a part of the model; its other files are fetched, of the same commit.
    None if the cache lacks weights, or if the hub does not give those files; where the operator
    wants no requests to it (HF_HUB_OFFLINE), the folder is taken as it is.
    """
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE

    try:
        # Without a pattern, no file is asked for that could be missing.
        snapshot = _local_snapshot(model, revision, HF_HUB_CACHE, patterns=[])
    except (RuntimeError, OSError):  # no home folder, or one of another user
        return None
    if snapshot is None or not any(any(snapshot.rglob(name)) for name in _WEIGHTS):
        return None
    commit = snapshot.name
    listing = snapshot.parents[1] / "trees" / f"{commit}.json"  # of the commit, by the client
    is_whole = listing.is_file() and _local_snapshot(model, commit, HF_HUB_CACHE, patterns)
    if not is_whole and HF_HUB_OFFLINE:
        log.warning("%s may lack files of %s: HF_HUB_OFFLINE forbids to ask", snapshot, model)
    elif not (is_whole or _completed(model, commit, patterns)):
        return None
    log.info("%s is in the cache of other programs: %s", model, snapshot)
    return snapshot


def _completed(model: str, commit: str, patterns: list[str]) -> bool:
    """Fetch the missing files of a commit into the client's own cache; return whether it worked."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(model, revision=commit, allow_patterns=patterns)
    except Exception as error:  # see _download, which is tried next
        log.info("the cache of other programs is not used for %s: %s", model, _message(error))
        return False
    return True


def _download(model: str, revision: str | None, cache: Path, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download

    download = partial(
        snapshot_download, model, revision=revision, cache_dir=cache, allow_patterns=patterns
    )
    try:
        return log_fetch(model, lambda: Path(download()))
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
