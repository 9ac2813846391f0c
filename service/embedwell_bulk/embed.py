"""`embedwell embed`: embed the texts of files into a file or a folder of parts."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from embedwell.cli.atomic_file import replacing, writing
from embedwell.cli.options import ENGINE, MODEL, check_urls, options, read, require
from embedwell_models.outputs.names import MAX_POOL_FACTOR

if TYPE_CHECKING:  # they load numpy and pyarrow
    from embedwell.settings.settings import Settings
    from embedwell_bulk.run import BulkJob
    from embedwell_bulk.text_encoder import TextEncoder

_FORMATS = ("parquet", "npy")  # those of parts, which loads pyarrow
_FILES = (".npy", ".jsonl")
_TABLES = (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")
_COLUMNS = (".csv", ".tsv", ".jsonl", ".ndjson", *_TABLES)
_FOLDER_FLAGS = (
    *("column", "image_column", "id_column", "keep"),
    *("format", "part_rows", "shard", "resume", "skip_damaged", "pool_factor"),
)
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


def _shard(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{value}: write I/N, such as 1/4, with I from 1 to N")
    return int(match[1]), int(match[2])


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "-o",
    "--output",
    required=True,
    help=(
        "File to write: .npy (one array) or .jsonl (a line for each text). Or a folder, local or "
        "at an address such as s3://bucket/folder."
    ),
)
@click.option("--prompt", default=None, help="Text to put before every text, or the instruction.")
@click.option("--column", metavar="COLUMN", help="Column of the texts.  [default: text]")
@click.option(
    "--image",
    "image_column",
    metavar="COLUMN",
    help=(
        "Column of images: bytes of their files, or paths. With --column, next to texts; otherwise "
        "in place of them."
    ),
)
@click.option("--id", "id_column", metavar="COLUMN", help="Column that identifies a row.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COLUMN",
    help="Column to write next to the vectors; may be given several times.  [default: all]",
)
@click.option(
    "--format", type=click.Choice(_FORMATS), help="Format of the parts.  [default: parquet]"
)
@click.option(
    "--part-rows",
    type=click.IntRange(1, 1 << 24),
    help=(
        "Maximum rows of a part; parts are kept in memory.  [default: 16384; 512 for models with "
        "a vector for each token]"
    ),
)
@click.option(
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Compute every N-th part from the I-th on, to share one folder among N machines.",
)
@click.option("--resume", is_flag=True, help="Continue a run that was stopped, or begin it.")
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Leave out the rest of a damaged file, and write where it begins to the errors.",
)
@click.option(
    "--pool-factor",
    type=click.IntRange(1, MAX_POOL_FACTOR),
    help=(
        "Divisor of the number of a text's vectors, for models with a vector for each token: "
        "similar ones become their mean.  [default: 1]"
    ),
)
@click.option(
    "--server",
    "servers",
    metavar="URL",
    multiple=True,
    callback=check_urls,
    help="Use a running server instead of loading a model; may be given several times.",
)
@click.option("--api-key", envvar="EMBEDWELL_API_KEY", help="API key of the servers.")
@options(*MODEL, *ENGINE)
def embed(sources: Sequence[str], output: str, **flags: Any) -> None:
    """Embed the texts or images of each SOURCE into files.

    Into a file: SOURCE is one file in UTF-8 (default: standard input), and each line is a text.
    Files with columns and compressed files need a folder.

    Into a folder: each SOURCE is a file, folder, glob or address such as s3://bucket/*.parquet, of
    Parquet, Arrow, JSONL, CSV or lines of text (.parquet, .arrow, .feather, .jsonl, .csv, .tsv,
    .txt; lines also compressed). Parts appear atomically, and --resume continues after a kill. A
    folder needs pyarrow and fsspec, the packages of the extra `bulk`.
    """
    folder_flags = {name: flags.pop(name) for name in _FOLDER_FLAGS}
    if folder_flags["image_column"] and flags["servers"]:
        raise click.UsageError("--server is for texts, and --image for images")
    if folder_flags["pool_factor"] and flags["servers"]:
        raise click.UsageError("--server is for one vector of each text; leave out --pool-factor")
    suffix = Path(output).suffix
    if suffix in _FILES and not output.endswith("/"):
        if flags_of_folders := [name for name, value in folder_flags.items() if value]:
            name = flags_of_folders[0].removesuffix("_column").replace("_", "-")
            raise click.UsageError(
                f"--{name} needs a folder, but {output} is a file; end --output with / for a folder"
            )
        _embed_lines(sources, Path(output), flags)
    elif suffix and "://" not in output and not output.endswith("/"):
        raise click.UsageError(
            f"{output}: the name must end in .npy or .jsonl, or in / for a folder of Parquet files"
        )
    elif not sources:
        raise click.UsageError(
            "an output folder needs files as SOURCE, not standard input; name them"
        )
    else:
        _embed_folder(sources, output, folder_flags, flags)


def _embed_lines(sources: Sequence[str], output: Path, flags: Mapping[str, Any]) -> None:
    from embedwell_bulk import BulkError, embed_file
    from embedwell_bulk.progress import count

    if len(sources) > 1:
        raise click.UsageError(
            f"{output} is a file, which has one SOURCE; write several to a folder"
        )
    for name in sources:
        _check_lines(name, output)
    try:
        with _open(sources[0] if sources else "-") as source, replacing(output) as file:
            lines = embed_file.count_lines(source)
            with _encoder(flags) as encoder, writing(output):
                if encoder.description.get("output"):
                    raise BulkError(
                        f"the model has a vector for each token, and {output} is a file; end "
                        "--output with / for a folder"
                    )
                writer = embed_file.WRITERS[output.suffix](file, encoder.dim)
                embedded = embed_file.embed_lines(encoder, source, lines, writer.write)
                writer.close()
    except BulkError as error:
        raise click.ClickException(str(error)) from None
    except (SystemExit, KeyboardInterrupt):
        click.echo(
            f"\nStopped. {output} is not written, and no vectors are kept. A folder keeps them: "
            f"embed into it with -o {output.with_suffix('')}/, and continue with --resume.",
            err=True,
        )
        raise
    click.echo(f"{count(embedded, 'text')} embedded into {output}", err=True)


def _check_lines(source: str, output: Path) -> None:
    """Raise UsageError for a source of another kind than lines of text."""
    suffix = Path(source).suffix.lower()
    if "://" in source or Path(source).is_dir():
        problem = "is not a file of lines on this machine"
    elif suffix in _COLUMNS:
        problem = "has columns, not a text on each line"
    elif suffix in _COMPRESSED:
        problem = "is compressed"
    else:
        return
    raise click.UsageError(
        f"{source} {problem}, and {output} is a file: embed it into a folder, with -o "
        f"{output.with_suffix('')}/ (and --column NAME for another column than text)"
    )


def _open(name: str) -> BinaryIO:
    try:
        return cast(BinaryIO, click.open_file(name, "rb"))
    except OSError as error:
        raise click.UsageError(f"{name}: {error.strerror}") from None


def _embed_folder(
    sources: Sequence[str],
    output: str,
    folder_flags: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> None:
    require("bulk", "pyarrow", "fsspec")
    from embedwell_bulk import BulkError
    from embedwell_bulk.progress import EmbedProgress, count
    from embedwell_bulk.run import run

    if folder_flags["shard"] and not flags["servers"] and _settings(flags).dtype == "auto":
        raise click.UsageError(
            "--shard needs --dtype, because each machine might choose a different one"
        )
    job, factor = _job(sources, output, folder_flags), folder_flags["pool_factor"] or 1
    kind = "image" if job.columns.text is None else "input" if job.columns.image else "text"
    progress = EmbedProgress(sys.stderr, kind)
    with ExitStack() as stack:

        def load(precision: str | None) -> "TextEncoder":
            if not job.columns.image:
                return stack.enter_context(_encoder(flags, precision, factor))
            from embedwell_bulk.local_images import load_local_images

            settings, has_texts = _settings(flags, precision), job.columns.text is not None
            return load_local_images(settings, flags["prompt"], has_texts, factor)

        try:
            counts = run(job, load, progress)
        except BulkError as error:
            raise click.ClickException(str(error)) from None
        except (SystemExit, KeyboardInterrupt):
            if not progress.begun:
                click.echo(f"Stopped before the first {kind} was embedded.", err=True)
            raise
    left_out = f"{count(counts['errors'], 'row')} left out"
    where = f": see {output.rstrip('/')}/_errors-*.jsonl" if counts["errors"] else ""
    embedded = f"{count(counts['embedded'], kind)} embedded into {output}"
    click.echo(f"{embedded}, {left_out}{where}")


def _job(sources: Sequence[str], output: str, flags: Mapping[str, Any]) -> "BulkJob":
    from embedwell_bulk.columns import Columns
    from embedwell_bulk.parts import PARQUET
    from embedwell_bulk.run import BulkJob, Shard

    return BulkJob(
        sources,
        output,
        Columns(
            flags["column"] or (None if flags["image_column"] else "text"),
            flags["id_column"],
            flags["keep"] or None,
            flags["image_column"],
        ),
        format=flags["format"] or PARQUET,
        part_rows=flags["part_rows"],
        shard=Shard(*(flags["shard"] or (1, 1))),
        resume=flags["resume"],
        skip_damaged=flags["skip_damaged"],
    )


def _settings(flags: Mapping[str, Any], precision: str | None = None) -> "Settings":
    """Read the settings. precision: of the model, unless the settings choose one."""
    settings = read({name: flags[name] for name in (*MODEL, *ENGINE)})
    if precision is not None and settings.dtype == "auto":
        return settings.model_copy(update={"dtype": precision})
    return settings


@contextmanager
def _encoder(
    flags: Mapping[str, Any], precision: str | None = None, pool_factor: int = 1
) -> Iterator["TextEncoder"]:
    """Create the encoder: the servers of the flags, or the model.

    Raises BulkError, ClickException.

    precision: precision of the model, unless the settings choose one. pool_factor: divisor of the
    number of a text's vectors.
    """
    if flags["servers"]:
        from embedwell_bulk.servers_encoder import connect

        key = flags["api_key"] and flags["api_key"].split(",")[0]  # a server can have several keys
        with connect(flags["servers"], key, flags["prompt"]) as encoder:
            yield encoder
        return
    from embedwell_bulk.local_model import load_text_model

    yield load_text_model(_settings(flags, precision), flags["prompt"], pool_factor)
