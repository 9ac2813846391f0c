"""The manifest of a run: what its vectors depend on, and the complete parts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from embedwell import __version__
from embedwell_bulk import BulkError
from embedwell_bulk.files import InputFile, OutputFolder

_FORMAT_VERSION = 1


def describe_inputs(files: Sequence[InputFile]) -> dict[str, Any]:
    """Return the number and bytes of files, and a checksum of addresses, sizes and times."""
    listing = orjson.dumps([[file.address, file.size, file.modified] for file in files])
    return {
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "sha256": hashlib.sha256(listing).hexdigest(),
    }


def read_manifest(folder: OutputFolder, name: str, resume: bool) -> Mapping[str, Any] | None:
    """Read the manifest of a run that can be resumed; None if there is none.

    Raises BulkError if there is one, but it should not be resumed.
    """
    if (content := folder.read(name)) is None:
        return None
    if not resume:
        raise BulkError(
            f"{folder.address} has the {name} of an earlier run; continue that run with "
            "--resume, or choose another folder"
        )
    return _parse(content, f"{folder.address}/{name}")


@dataclass
class Manifest:
    """The manifest of a run, with counts of the parts that need not be computed again.

    identity: everything that decides the output.
    parts: the complete parts, by index.
    """

    name: str
    identity: Mapping[str, Any]
    parts: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        folder: OutputFolder,
        name: str,
        identity: Mapping[str, Any],
        stored: Mapping[str, Any] | None,
    ) -> "Manifest":
        """Begin a run, or resume a stored one. Raises BulkError if that was a different run."""
        manifest = cls(name, orjson.loads(orjson.dumps(identity)))
        if stored is None:
            manifest.write(folder, complete=False)
            return manifest
        if differences := _differences(stored["run"], manifest.identity):
            raise BulkError(
                f"{folder.address} belongs to a different run ({differences}); use the same "
                "options and inputs, or choose another folder"
            )
        sizes = folder.sizes()
        for part in stored["parts"]:
            if all(sizes.get(name) == file["bytes"] for name, file in part["files"].items()):
                manifest.parts[part["part"]] = part
        return manifest

    def complete_part(
        self, folder: OutputFolder, part: int, counts: Mapping[str, int], files: Mapping[str, Any]
    ) -> None:
        """Write the files of a part, then record it as complete. Raises BulkError."""
        for name, content in files.items():
            folder.write(name, content)
        described = {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        }
        self.parts[part] = {"part": part, **counts, "files": described}
        self.write(folder, complete=False)

    def write(self, folder: OutputFolder, complete: bool) -> Mapping[str, int]:
        """Write the manifest, and return the counts of its parts. Raises BulkError.

        complete: whether all parts are complete.
        """
        parts = [self.parts[index] for index in sorted(self.parts)]
        names = ("rows", "embedded", "errors", "computed")
        counts = {name: sum(part[name] for part in parts) for name in names}
        content = {
            "version": _FORMAT_VERSION,
            "created_by": f"embedwell {__version__}",
            "complete": complete,
            "run": self.identity,
            "counts": counts,
            "parts": parts,
        }
        folder.write(self.name, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
        return counts


def _parse(content: bytes, address: str) -> Mapping[str, Any]:
    try:
        stored: Mapping[str, Any] = orjson.loads(content)
        version = stored["version"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise BulkError(
            f"{address} is not a manifest of `embedwell embed`; choose another folder"
        ) from None
    if version != _FORMAT_VERSION:
        raise BulkError(
            f"{address} has version {version}, but this program reads version {_FORMAT_VERSION}; "
            "choose another folder"
        )
    return stored


def _differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    names = [name for name in {**stored, **current} if stored.get(name) != current.get(name)]
    return "; ".join(
        f"{name} was {_shown(stored.get(name))}, now it is {_shown(current.get(name))}"
        for name in names
    )


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()
