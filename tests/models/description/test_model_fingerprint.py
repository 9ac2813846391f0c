"""Tests of the fingerprint of a folder: other vectors have another one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from transformers import LlamaModel

from embedwell_models.config.model_options import OPTION_NAMES
from embedwell_models.cpu_backend import library
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.vectors import Floats
from tests.models.families.checkpoint import Case, write
from tests.models.tiny import VOCABULARY, write_tokenizer

TEXTS = ["for the license of this work", "AND the copyright", "you " * 30]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with every kind of file that changes its vectors."""
    encoder, path = tmp_path_factory.mktemp("encoder"), tmp_path_factory.mktemp("model")
    options = {"vocab_size": len(VOCABULARY), "num_key_value_heads": 2}
    special = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos")}
    write(Case("llama", {**options, **special}, model=LlamaModel), encoder)
    write_tokenizer(encoder)
    width = 64
    after = [st.Pooling(width, "lasttoken"), st.Dense(width, 16), st.Normalize()]
    transformer = st.Transformer(str(encoder), max_seq_length=20)
    model = SentenceTransformer(
        modules=[transformer, *after],
        prompts={"query": "for the "},
        default_prompt_name="query",
        device="cpu",
    )
    model.save_pretrained(str(path), create_model_card=False)
    return path


def edit(folder: Path, name: str, **changed: Any) -> None:
    path = folder / name
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(known | changed), encoding="utf-8")


def without_normalize(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:-1]), encoding="utf-8")


def last_byte(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        raw = bytearray((folder / name).read_bytes())
        raw[-1] ^= 1 << 7  # the sign of the last weight
        (folder / name).write_bytes(raw)

    return change


def with_token(folder: Path) -> None:
    path = folder / "tokenizer.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["model"]["vocab"]["the"], told["model"]["vocab"]["of"] = 80, 81
    path.write_text(json.dumps(told), encoding="utf-8")


CHANGES: dict[str, Callable[[Path], None]] = {
    "the base of the angles": lambda f: edit(f, "config.json", rope_parameters={"rope_theta": 50}),
    "the norms": lambda f: edit(f, "config.json", rms_norm_eps=0.5),
    "the last module": without_normalize,
    "an activation": lambda f: edit(
        f, "2_Dense/config.json", activation_function="torch.nn.modules.linear.Identity"
    ),
    "the weights": last_byte("model.safetensors"),
    "the weights of a module": last_byte("2_Dense/model.safetensors"),
    "the pooling": lambda f: edit(f, "1_Pooling/config.json", pooling_mode="mean"),
    "the prompt": lambda f: edit(
        f, "config_sentence_transformers.json", prompts={"query": "of the "}
    ),
    "the default prompt": lambda f: edit(
        f, "config_sentence_transformers.json", default_prompt_name=None
    ),
    "the length": lambda f: edit(f, "tokenizer_config.json", model_max_length=9),
    "the longest text": lambda f: edit(f, "sentence_bert_config.json", max_seq_length=7),
    "letters": lambda f: edit(f, "sentence_bert_config.json", do_lower_case=True),
    "the tokenizer": with_token,
}


def embed(folder: Path, **options: Any) -> tuple[Floats, str]:
    found = Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})
    return found.embed(TEXTS), found.fingerprint


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_changes_the_vectors_changes_the_fingerprint(
    name: str, folder: Path, tmp_path: Path
) -> None:
    vectors, fingerprint = embed(folder)
    shutil.copytree(folder, tmp_path / "copy")
    CHANGES[name](tmp_path / "copy")
    others, other = embed(tmp_path / "copy")
    assert not np.array_equal(others, vectors)
    assert other != fingerprint


DECIDING = {"pooling": "mean", "dtype": "bfloat16"}
DECIDING_ELSEWHERE = {"rerank_format", "adapter", "unicode_normalization"}
"""Options for which other models are needed: rerankers, routers, other tokenizers."""
ROUNDING: dict[str, Any] = {"isa": library.lower_caps()[-1], "cuda_graphs": False}
OTHERS = {  # they choose the files, the device, and what an engine computes together
    *("revision", "image_model", "device"),
    *("threads", "max_batch_tokens"),
}


def test_each_option_is_known_to_change_the_fingerprint_or_not() -> None:
    known = {*DECIDING, *DECIDING_ELSEWHERE, *ROUNDING, *OTHERS}
    assert {*OPTION_NAMES} == known, "add it to `fingerprint` if it changes vectors, and here"


@pytest.mark.parametrize("option", DECIDING)
def test_an_option_that_changes_the_vectors_changes_the_fingerprint(
    option: str, folder: Path
) -> None:
    vectors, fingerprint = embed(folder)
    others, other = embed(folder, **{option: DECIDING[option]})
    assert not np.array_equal(others, vectors)
    assert other != fingerprint


@pytest.mark.parametrize("option", ROUNDING)
def test_an_option_that_changes_the_rounding_alone_does_not(option: str, folder: Path) -> None:
    vectors, fingerprint = embed(folder)
    others, other = embed(folder, **{option: ROUNDING[option]})
    np.testing.assert_allclose(others, vectors, atol=1e-4)
    assert other == fingerprint


def test_a_copy_has_the_same_fingerprint_and_what_is_not_read_is_not_in_it(
    folder: Path, tmp_path: Path
) -> None:
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    shutil.copytree(folder, tmp_path / "copy")
    for name in ("README.md", "train.json", "1_Pooling/notes.txt"):
        (tmp_path / "copy" / name).write_text("more", encoding="utf-8")
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path / "copy")) == before
