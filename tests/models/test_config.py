"""Tests of the shape of an encoder."""

import json
from pathlib import Path

import pytest

from models.config import EncoderConfig, read_json
from models.errors import ModelError

BERT = {
    "model_type": "bert",
    "vocab_size": 100,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "max_position_embeddings": 64,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}


def written(folder: Path, raw: object) -> Path:
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    return folder


def test_every_field_is_read_from_its_key(tmp_path: Path) -> None:
    assert EncoderConfig.read(written(tmp_path, BERT)) == EncoderConfig(
        family="bert",
        vocab_size=100,
        hidden_size=48,
        num_layers=3,
        num_heads=4,
        intermediate_size=80,
        max_positions=64,
        activation="gelu",
        norm_eps=1e-12,
    )


def test_heads_share_the_width(tmp_path: Path) -> None:
    assert EncoderConfig.read(written(tmp_path, BERT)).head_size == 12


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("hidden_act", "silu"),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    tmp_path: Path, key: str, value: object
) -> None:
    with pytest.raises(ModelError, match=f"{key} = {value!r} is not supported"):
        EncoderConfig.read(written(tmp_path, BERT | {key: value}))


@pytest.mark.parametrize("raw", [BERT | {"model_type": "t5"}, {}])
def test_another_family_is_refused_with_the_ones_there_are(
    tmp_path: Path, raw: dict[str, object]
) -> None:
    with pytest.raises(ModelError, match=r"not supported; supported: \['bert'\]"):
        EncoderConfig.read(written(tmp_path, raw))


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    raw = {key: value for key, value in BERT.items() if key != "layer_norm_eps"}
    with pytest.raises(ModelError, match=r"config\.json has no 'layer_norm_eps'"):
        EncoderConfig.read(written(tmp_path, raw))


def test_a_width_that_does_not_divide_into_heads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="hidden_size 48 does not divide into 5 heads"):
        EncoderConfig.read(written(tmp_path, BERT | {"num_attention_heads": 5}))


def test_a_folder_without_a_config_is_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is missing: not a model folder"):
        EncoderConfig.read(tmp_path)


def test_broken_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"a": ', encoding="utf-8")
    with pytest.raises(ModelError, match=r"broken\.json is not valid JSON"):
        read_json(tmp_path / "broken.json")


def test_json_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(ModelError, match=r"latin\.json is not valid JSON"):
        read_json(tmp_path / "latin.json")
