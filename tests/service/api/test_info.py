"""Fields of /info, the server's and TEI's."""

from functools import partial
from pathlib import Path

import pytest

from embedwell.api.info import server_info
from embedwell.engine.client.current_engine import CurrentEngine
from embedwell.engine.protocol.fd_handoff import request_connection
from embedwell.inference.dimensions import AllowedDimensions
from embedwell.process.shared_counters import SharedCounters
from embedwell.settings.settings import Settings
from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.folder import Folder
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.sentence_transformers.sentence import SentenceConfig
from tests.service.server import Server

ENDLESS = 1 << 30


def info(sentence: SentenceConfig, rate: float = 0.0, **settings: object) -> dict[str, object]:
    """Return /info before the engine has started. rate: of the engine, in tokens per second."""
    values = Settings(_env_file=None, **settings)  # type: ignore[call-arg, arg-type]
    dimensions = AllowedDimensions.from_setting("none", 384, ())
    link = CurrentEngine(partial(request_connection, 0), SharedCounters.private())
    link.rate.update(rate)
    config = EncoderConfig(
        family="bert",
        vocab_size=9,
        hidden_size=4,
        num_layers=1,
        num_heads=1,
        intermediate_size=4,
        max_positions=9,
        norm_eps=0.1,
    )
    spec = CheckpointSpec(config=config, tensors={})
    return server_info(values, link, Folder(Path(), Path(), spec, sentence), dimensions)


def test_info_has_teis_fields(server: Server) -> None:
    content = server.client.get("/info").json()
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
    assert {name: content[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("max_length", "max_texts", "size"),
    [(256, 2048, 1171), (256, 100, 100), (8192, 2048, 36), (32_768, 2048, 32), (ENDLESS, 2048, 32)],
)
def test_client_batch_size_is_texts_of_full_length_but_at_least_teis_default(
    max_length: int, max_texts: int, size: int
) -> None:
    actual = info(SentenceConfig(max_length=max_length), max_texts=max_texts)
    assert actual["max_client_batch_size"] == size


@pytest.mark.parametrize(
    ("pooling", "name"),
    [(("cls",), "cls"), (("lasttoken",), "last_token"), (("mean", "max"), "mean+max")],
)
def test_the_pooling_has_teis_name(pooling: tuple[str, ...], name: str) -> None:
    actual = info(SentenceConfig(max_length=9, pooling=pooling))
    assert actual["model_type"] == {"embedding": {"pooling": name}}


def test_max_batch_tokens_is_at_least_the_maximum_length(server: Server) -> None:
    assert info(SentenceConfig(max_length=9))["max_batch_tokens"] == 9  # before the engine starts
    assert info(SentenceConfig(max_length=9), max_batch_tokens=20)["max_batch_tokens"] == 20
    assert info(SentenceConfig(max_length=30), max_batch_tokens=20)["max_batch_tokens"] == 30
    assert server.client.get("/info").json()["max_batch_tokens"] == 2048


def test_max_concurrent_requests_is_limited_by_queue_and_connections() -> None:
    sentence = SentenceConfig(max_length=9)
    assert info(sentence, rate=90.0, max_wait=5.0)["max_concurrent_requests"] == 50
    few = info(sentence, rate=90.0, max_wait=5.0, max_connections=10, workers=2)
    assert few["max_concurrent_requests"] == 20
    assert info(sentence)["max_concurrent_requests"] == 1  # until the throughput is known


def test_engine_fields_are_null_until_it_has_started(tmp_path: Path) -> None:
    actual = info(SentenceConfig(max_length=9), model=str(tmp_path), revision="a")
    assert actual["engine"] is actual["model_dtype"] is None
    assert (actual["model_id"], actual["model_sha"]) == (str(tmp_path), "a")
    assert actual["served_model_name"] == actual["model"] == tmp_path.name
