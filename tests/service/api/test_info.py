"""What /info tells, in the server's words and in TEI's."""

from functools import partial
from pathlib import Path

import pytest

from models.hub.sources import DEFAULT
from models.sentence_transformers.sentence import SentenceConfig
from service.api.info import server_info
from service.engine.host.engine_connection import EngineConnection
from service.engine.protocol.fd_handoff import request_connection
from service.inference.dimensions import Dimensions
from service.process.shared_counters import SharedCounters
from service.settings import Settings
from tests.service.server import Server

ENDLESS = 1 << 30


def told(sentence: SentenceConfig, rate: float = 0.0, **settings: object) -> dict[str, object]:
    """What is told before an engine has started. rate: of the engine, in tokens per second."""
    given = Settings(_env_file=None, **settings)  # type: ignore[call-arg, arg-type]
    dimensions = Dimensions.from_setting("none", 384, ())
    link = EngineConnection(partial(request_connection, 0), SharedCounters.private())
    link.rate.update(rate)
    return server_info(given, link, sentence, dimensions)


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


def test_a_batch_holds_a_text_of_full_length(server: Server) -> None:
    assert told(SentenceConfig(max_length=9))["max_batch_tokens"] == 9  # before the engine starts
    assert told(SentenceConfig(max_length=9), max_batch_tokens=20)["max_batch_tokens"] == 20
    assert told(SentenceConfig(max_length=30), max_batch_tokens=20)["max_batch_tokens"] == 30
    assert server.client.get("/info").json()["max_batch_tokens"] == 2048


def test_as_many_requests_go_at_once_as_queue_and_connections_take() -> None:
    sentence = SentenceConfig(max_length=9)
    assert told(sentence, rate=90.0, max_wait=5.0)["max_concurrent_requests"] == 50
    few = told(sentence, rate=90.0, max_wait=5.0, max_connections=10, workers=2)
    assert few["max_concurrent_requests"] == 20
    assert told(sentence)["max_concurrent_requests"] == 1  # until the pace is known


def test_what_only_the_engine_knows_is_null_until_it_has_started(tmp_path: Path) -> None:
    found = told(SentenceConfig(max_length=9), model=str(tmp_path), revision="a")
    assert found["engine"] is found["model_dtype"] is None
    assert (found["model_id"], found["model_sha"]) == (str(tmp_path), "a")
    assert found["served_model_name"] == found["model"] == tmp_path.name
