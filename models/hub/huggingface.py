"""Models of the Hugging Face hub, fetched by its own client."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from models.errors import ModelError

_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]
_PRIVATE = "; one that is not public needs a token in HF_TOKEN"


def fetch(model: str, revision: str | None, cache: Path, pickled: Sequence[str] = ()) -> Path:
    """The folder of organisation/name, fetched on first use into a cache of the client's layout.

    pickled: folders inside it of which the weights that torch.save wrote are wanted, too.

    What was fetched once stays: a branch that moves on does not change the vectors, and a hub that
    is down is not missed. What was broken off goes on where it stopped. HF_TOKEN and HF_ENDPOINT
    are the client's: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
    Raises ModelError when the model cannot be had.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    weights = [(PurePosixPath(part) / "pytorch_model*.bin").as_posix() for part in pickled]
    wanted = [*_WANTED, *weights]
    snapshot = partial(
        snapshot_download, model, revision=revision, cache_dir=cache, allow_patterns=wanted
    )
    try:
        return Path(snapshot(local_files_only=True))
    except LocalEntryNotFoundError:
        pass  # there is nothing of it, or not all
    except ValueError as error:
        raise ModelError(f"{model!r} is no name of a model: {error}") from None
    try:
        return Path(snapshot())
    except Exception as error:  # the client's, or of what carries the files: httpx, xet, the disk
        raise ModelError(f"{model!r} could not be fetched from the hub: {_told(error)}") from None


def _told(error: Exception) -> str:
    response = getattr(error, "response", None)
    refused = response is not None and response.status_code in (401, 403)
    return f"{error}".strip() + _PRIVATE * refused
