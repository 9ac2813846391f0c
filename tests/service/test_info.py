"""What /info tells, in the server's words and in TEI's."""

from pathlib import Path
from socket import socket

import pytest

from models.sentence import SentenceConfig
from models.sources import DEFAULT
from service.api.info import info
from service.board import Board
from service.dimensions import Dimensions
from service.engine.link import Link
from service.settings import Settings
from tests.service.server import Server

ENDLESS = 1 << 30


def told(sentence: SentenceConfig, **settings: object) -> dict[str, object]:
    """What is told before an engine has started."""
    given = Settings(_env_file=None, **settings)  # type: ignore[call-arg, arg-type]
    dimensions = Dimensions.of("none", 384, ())
    return info(given, Link(socket, Board.alone()), sentence, dimensions)


def test_teis_fields_are_told_as_it_has_them(server: Server) -> None:
    found = server.client.get("/info").json()
    expected = {
        "model_id": DEFAULT,
        "model_sha": None,
        "model_dtype": "float32",
        "served_model_name": DEFAULT,
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_input_length": 256,
        "max_batch_tokens": 2048,
        "max_batch_requests": None,
        "auto_truncate": True,
        "tokenization_workers": 1,
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("max_length", "max_texts", "size"),
    [(256, 2048, 1171), (256, 100, 100), (8192, 2048, 36), (32_768, 2048, 32), (ENDLESS, 2048, 32)],
)
def test_a_batch_is_of_texts_of_full_length_that_are_taken_or_of_teis_own_size(
    max_length: int, max_texts: int, size: int
) -> None:
    found = told(SentenceConfig(max_length=max_length), max_texts=max_texts)
    assert found["max_client_batch_size"] == size


@pytest.mark.parametrize(
    ("pooling", "name"),
    [(("cls",), "cls"), (("lasttoken",), "last_token"), (("mean", "max"), "mean+max")],
)
def test_the_pooling_has_teis_name(pooling: tuple[str, ...], name: str) -> None:
    found = told(SentenceConfig(max_length=9, pooling=pooling))
    assert found["model_type"] == {"embedding": {"pooling": name}}


def test_what_only_the_engine_knows_is_null_until_it_has_started(tmp_path: Path) -> None:
    found = told(SentenceConfig(max_length=9), model=str(tmp_path), revision="a")
    assert found["engine"] is found["model_dtype"] is found["max_batch_tokens"] is None
    assert (found["model_id"], found["model_sha"]) == (str(tmp_path), "a")
    assert found["served_model_name"] == found["model"] == tmp_path.name
