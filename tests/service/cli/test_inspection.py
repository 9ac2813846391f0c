"""What is told of a model that was not loaded."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from models.folder import Folder
from service.cli.inspection import inspect, lines
from tests.conftest import Folder as Write
from tests.models.families.checkpoint import Case, write
from tests.models.families.special import SPECIAL
from tests.models.sentence_transformers.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.tiny import write_tokenizer

PRODUCT = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}


def sentence_model(tiny_bert: Write) -> Folder:
    dense = {"in_features": 96, "out_features": 7, "bias": False}
    path = tiny_bert(
        {
            "modules.json": [TRANSFORMER, POOLING, PRODUCT, NORMALIZE],
            "1_Pooling/config.json": {"pooling_mode": ["mean", "cls"]},
            "2_Dense/config.json": dense,
            "tokenizer_config.json": {"truncation_side": "left"},
            "config_sentence_transformers.json": {"prompts": {"query": "query: ", "text": ""}},
        }
    )
    save_file({"linear.weight": np.ones((7, 96))}, path / "2_Dense" / "model.safetensors")
    return Folder.read(path)


def test_all_that_decides_a_vector_is_told(tiny_bert: Write) -> None:
    found = inspect(sentence_model(tiny_bert))
    wanted = {
        "family": "bert",
        "num_layers": 3,
        "hidden_size": 48,
        "max_positions": 64,
        "truncation_side": "left",
        "pooling": ("mean", "cls"),
        "normalize": True,
        "dim": 7,
        "prompts": {"query": "query: ", "text": ""},
        "modules": [
            {
                "kind": "Dense",
                "path": "2_Dense",
                "inputs": 96,
                "outputs": 7,
                "bias": False,
                "activation": "Tanh",
                "tensor": "linear.weight",
            }
        ],
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["memory_bytes"]["float32"] == 4 * found["parameters"]


def test_it_can_be_told_as_json_and_as_lines(tiny_bert: Write) -> None:
    found = inspect(sentence_model(tiny_bert))
    assert json.loads(json.dumps(found))["dim"] == 7
    text = "\n".join(lines(found))
    assert 'prompts            query "query: ", text ' in text
    assert "pooling            mean, cls" in text
    assert "normalize          yes" in text
    assert "modules            kind Dense, path 2_Dense, inputs 96, outputs 7, bias no" in text


def test_what_is_not_there_is_told_too(tiny_bert: Write) -> None:
    text = list(lines(inspect(Folder.read(tiny_bert()))))
    assert "modules            none" in text and "prompts            none" in text


def test_every_scheme_of_a_model_is_told_with_its_numbers(tmp_path: Path) -> None:
    write(Case("modernbert", SPECIAL), tmp_path)
    write_tokenizer(tmp_path)
    whole, local = inspect(Folder.read(tmp_path))["positions"]
    assert (whole["scheme"], whole["dim"], whole["base"]) == ("rotary", 16, 160_000.0)
    assert (local["scheme"], local["base"]) == ("rotary", 10_000.0)
    assert whole["scaling"]["kind"] == "default"
