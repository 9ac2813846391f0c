"""Vectors, similarities and position encodings of a local model or a running server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import numpy as np
from pydantic import ValidationError
from tqdm import tqdm

from embedwell.cli.options import load_embedder, model_folder, read
from embedwell.compute.position_encoding import PositionTables, compute_tables
from embedwell.compute.request_limits import check_response_numbers
from embedwell.errors import ServiceError
from embedwell.routes.positions import PositionsRequest
from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError
from embedwell_bulk.local_model import LocalModel as BulkModel
from embedwell_bulk.local_model import check_dense
from embedwell_bulk.text_encoder import embed_window
from embedwell_client import Client, RequestFailed
from embedwell_client.request_builders import EmbedOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.positions.schemes import Learned
from embedwell_models.read.prompts import Prompts, Role
from embedwell_models.vectors import METRICS, Floats

if TYPE_CHECKING:  # imported when a model is loaded
    from embedwell_models.embedder import Embedder


_CHUNK = 1024  # texts between two updates of the progress bar


class VectorSource(Protocol):
    """A model with its name and computations. Every method raises ClickException."""

    @property
    def model(self) -> str: ...

    @property
    def precision(self) -> str:
        """float32, bfloat16, float16, int8 or int4."""

    def embed(self, texts: Sequence[str], role: Role | None = None) -> Floats:
        """Return the vectors of B texts, with a progress bar: (B, D).

        role: whose prompt is used, if the model has one and no other prompt was chosen.
        """

    def similarity(self, a: Sequence[str], b: Sequence[str], metric: str) -> Floats:
        """Return the score of every pair of texts: (A, B)."""

    def positions(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a response of /positions, with arrays for lists.

        options: fields of the request.
        """


@contextmanager
def vector_source(flags: Mapping[str, Any]) -> Iterator[VectorSource]:
    """Yield the source that options select: `server` with its `api_key`, or the model.

    Raises ClickException if the server is unreachable.
    """
    flags = dict(flags)
    server, api_key, prompt = (flags.pop(name, None) for name in ("server", "api_key", "prompt"))
    if not server:
        yield LocalModel(read(flags), prompt)
        return
    key = api_key and api_key.split(",")[0]  # a server can have several keys
    try:
        with Client(server, key, retries=0) as client:
            info = client.info()
        if info["engine"] is None:
            raise click.ClickException(
                f"{server} has not loaded its model yet; try again in a minute"
            )
        precision, normalize = info["engine"]["dtype"], info["engine"]["normalize"]
        with Client(server, key) as client:
            yield RunningServer(client, info["model"], precision, normalize, prompt)
    except RequestFailed as error:
        raise click.ClickException(f"{server}: {error}") from None


@dataclass(frozen=True)
class RunningServer:
    """A server as a VectorSource.

    normalize: whether the model's files enable normalisation.
    """

    client: Client
    model: str
    precision: str
    normalize: bool
    prompt: str | None

    def embed(self, texts: Sequence[str], role: Role | None = None) -> Floats:
        options: EmbedOptions = {"normalize": self.normalize}
        if self.prompt is None and role is not None:
            options["input_type"] = role
        else:
            options["prompt"] = self.prompt
        vectors = []
        with _progress_bar(len(texts)) as bar:
            for start in range(0, len(texts), _CHUNK):
                chunk = texts[start : start + _CHUNK]
                vectors.append(self.client.embed(chunk, **options))
                bar.update(len(chunk))
        return np.concatenate(vectors)

    def similarity(self, a: Sequence[str], b: Sequence[str], metric: str) -> Floats:
        return self.client.similarity(a, b, metric=metric, prompt=self.prompt)

    def positions(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.client.positions(**options)


@dataclass(frozen=True)
class LocalModel:
    """A model on this machine as a VectorSource, loaded when it is needed."""

    settings: Settings
    prompt: str | None

    @property
    def model(self) -> str:
        return Path(self.settings.model).name

    @cached_property
    def _embedder(self) -> "Embedder":
        return load_embedder(self.settings)

    @property
    def precision(self) -> str:
        return self._embedder.dtype

    def embed(self, texts: Sequence[str], role: Role | None = None) -> Floats:
        prompt = self.prompt
        if prompt is None:
            prompt = Prompts(self._embedder.recipe).resolve(None, None, role).text
        model = BulkModel(self._embedder, self.model, prompt)
        try:
            check_dense(self._embedder)
            with _progress_bar(len(texts)) as bar:
                encoded = embed_window(model, texts, bar.update)
                bar.update(len(texts) - encoded.computed)  # those that equal others
        except BulkError as error:
            raise click.ClickException(str(error)) from None
        for index, reason in encoded.rejected.items():
            raise click.ClickException(f"line {index + 1}: {reason}; take it out")
        return encoded.dense

    def similarity(self, a: Sequence[str], b: Sequence[str], metric: str) -> Floats:
        texts = list(dict.fromkeys([*a, *b]))
        rows = {text: row for row, text in enumerate(texts)}
        vectors = self.embed(texts)
        return METRICS[metric](*(vectors[[rows[text] for text in side]] for side in (a, b)))

    def positions(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            folder = ModelDescription.read(model_folder(self.settings), self.settings.options)
            encoding = PositionsRequest(**options).encoding(folder.spec.config)
            check_response_numbers(encoding.value_bound, self.settings.max_values)
            if isinstance(encoding.scheme, Learned):
                size = folder.spec.config.max_positions
                tables = self._learned_table(len(encoding.positions), size, encoding.scheme.padding)
            else:
                tables = compute_tables(encoding)
            bias_table = folder.bias_table() if encoding.trained else None
        except ValidationError as error:
            (problem, *_) = error.errors(include_url=False)
            raise click.UsageError(f"--{problem['loc'][0]}: {problem['msg']}") from None
        except (ServiceError, ModelError) as error:
            raise click.ClickException(str(error)) from None
        if bias_table is not None and "buckets" in tables:
            tables["bias"] = bias_table.T[:, tables["buckets"]]
        return {"scheme": encoding.name, "parameters": encoding.parameters, **tables}

    def _learned_table(self, count: int, size: int, padding_id: int) -> PositionTables:
        if count > size:
            raise click.ClickException(f"the model's table has {size} positions; lower --count")
        # The position part of this input is the start of the table. Padding has no position.
        ids = np.full(count, int(padding_id == 0), dtype=np.int32)
        return {"vectors": self._embedder.hidden([ids], "position")[0]}


def _progress_bar(texts: int) -> "tqdm[Any]":
    # On a terminal only, as `disable` says.
    return tqdm(total=texts, desc="embedding", unit=" texts", disable=None)
