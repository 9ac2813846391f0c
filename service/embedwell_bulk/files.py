"""Files on this machine and in object stores: local paths, s3://, gs:// and fsspec's schemes."""

import logging
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import Buffer, NativeFile
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from embedwell_bulk import BulkError

log = logging.getLogger(__name__)

_NATIVE = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")  # pyarrow reads these itself
_WITHOUT_FOLDERS = ("s3", "gcs", "abfs")  # there, creating a folder would write an empty object


@dataclass(frozen=True)
class InputFile:
    """A file of texts.

    address: address as written in messages.
    size: bytes.
    modified: nanoseconds, or None.
    relative_path: path below the folder of the source, or below the first wildcard of a glob; the
        name of a file that is a source itself.
    """

    address: str
    files: FileSystem
    path: str
    size: int
    modified: int | None
    relative_path: str

    @contextmanager
    def open(self) -> Iterator[NativeFile]:
        """Open the file. Raises BulkError if it cannot be opened."""
        with _errors(self.address):
            source = self.files.open_input_file(self.path)
        with source:
            yield source


def find_inputs(addresses: Sequence[str]) -> list[InputFile]:
    """Return the files of addresses: all files of a folder, the matches of a glob, by name.

    Files and folders whose names begin with a dot or an underscore are left out, as pyarrow leaves
    them out of a dataset, unless the address names them. Raises BulkError if an address has no
    file.
    """
    return [file for address in addresses for file in _find(address)]


def _find(address: str) -> Iterator[InputFile]:
    with _errors(address):
        files, path = resolve_filesystem(address)
        if files.get_file_info(path).type == FileType.File:
            base, names = posixpath.dirname(path), [path]
        else:
            base, names = _search(files, path)
            if isinstance(files, LocalFileSystem):
                _require_readable(Path(base), below=base == path)
        paths = {name: posixpath.relpath(name, base or "/") for name in names}
        visible = [name for name, below in paths.items() if not _is_hidden(below) or name == path]
        infos = [info for info in files.get_file_info(visible) if info.is_file]
    if not infos:
        hidden = " whose name does not begin with . or _" if names else ""
        raise BulkError(f"{address}: no such file{hidden}")
    if any("/_delta_log/" in f"/{below}" for below in paths.values()):
        log.warning(
            "%s has a Delta table: all of its Parquet files are read, also those of rows that were "
            "deleted or replaced; export its newest version first if there are any",
            address,
        )
    scheme = "" if isinstance(files, LocalFileSystem) else f"{address.partition('://')[0]}://"
    for info in infos:
        address = f"{scheme}{info.path}"
        origin = info.size or 0, info.mtime_ns, paths[info.path]
        yield InputFile(address, files, info.path, *origin)


def _search(files: FileSystem, path: str) -> tuple[str, list[str]]:
    """Return the folder of a search, before the first wildcard, and the paths below it."""
    tree = ArrowFSWrapper(files)
    folders = path.split("/")
    fixed = next((i for i, name in enumerate(folders) if {*name} & {*"*?["}), None)
    if fixed is None:
        return path, sorted(tree.find(path))
    return "/".join(folders[:fixed]), sorted(tree.glob(path))


def _require_readable(folder: Path, below: bool) -> None:
    """Raise BulkError for a folder that cannot be listed, whose files would be left out silently.

    below: whether to look at the folders below it.
    """

    def fail(error: OSError) -> None:
        raise BulkError(f"{error.filename} cannot be listed: {error.strerror}")

    if not folder.exists():
        return
    for _, names, _ in os.walk(folder, onerror=fail):
        names[:] = [name for name in names if name[0] not in "._"] if below else []


def _is_hidden(relative_path: str) -> bool:
    return any(name[0] in "._" for name in relative_path.split("/"))


def resolve_filesystem(address: str) -> tuple[FileSystem, str]:
    """Return the file system of an address, and the path in it. Raises BulkError."""
    scheme, separator, path = address.partition("://")
    if not separator or scheme == "file":
        return LocalFileSystem(), os.path.abspath(path if separator else address)
    with _errors(address):
        if scheme in _NATIVE:  # not parsed as a URI, because a name can have a space or an asterisk
            return FileSystem.from_uri(f"{scheme}://{path.partition('/')[0]}")[0], path.rstrip("/")
        files, path = fsspec.core.url_to_fs(address)
        return PyFileSystem(FSSpecHandler(files)), path


@dataclass(frozen=True)
class OutputFolder:
    """A folder whose files appear atomically."""

    address: str
    files: FileSystem
    path: str

    @classmethod
    def open(cls, address: str) -> "OutputFolder":
        """Create the folder if it does not exist. Raises BulkError."""
        files, path = resolve_filesystem(address)
        with _errors(address):
            if files.type_name not in _WITHOUT_FOLDERS:
                files.create_dir(path)
        return cls(address, files, path)

    def write(self, name: str, content: bytes | Buffer) -> None:
        """Write or replace a file. Raises BulkError."""
        path = f"{self.path}/{name}"
        with _errors(f"{self.address}/{name}"):
            if isinstance(self.files, LocalFileSystem):
                _replace(Path(path), content)
                return
            # In object stores a file appears when it is closed.
            with self.files.open_output_stream(path, compression=None) as stream:
                stream.write(content)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist. Raises BulkError."""
        path = f"{self.path}/{name}"
        with _errors(f"{self.address}/{name}"):
            if not self.files.get_file_info(path).is_file:
                return None
            with self.files.open_input_stream(path, compression=None) as stream:
                content: bytes = stream.read()
            return content

    def delete(self, name: str) -> None:
        """Delete a file. Raises BulkError."""
        with _errors(f"{self.address}/{name}"):
            self.files.delete_file(f"{self.path}/{name}")

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes, by name. Raises BulkError."""
        with _errors(self.address):
            infos = self.files.get_file_info(FileSelector(self.path, allow_not_found=True))
            return {info.base_name: info.size for info in infos if info.is_file}


def _replace(path: Path, content: bytes | Buffer) -> None:
    temporary = path.with_name(f".{path.name}.tmp")  # the same after a kill, which leaves the file
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Convert errors of file systems to a BulkError with the address."""
    try:
        yield
    except (OSError, ImportError, ValueError) as error:
        message = getattr(error, "strerror", None) or error
        raise BulkError(f"{address}: {message}") from error
