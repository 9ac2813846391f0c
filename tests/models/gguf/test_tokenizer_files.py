"""Tokenizers of GGUF files have the ids of the SentencePiece files that they were made of."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

from embedwell_models.errors import ModelError
from embedwell_models.gguf import tokenizer_files
from embedwell_models.gguf.file import GgufFile, Metadata
from tests.conftest import UNUSUAL_TEXTS
from tests.models import gguf_files, kinds, raw

TEXTS = [*UNUSUAL_TEXTS, *kinds.PROSE.splitlines()[:40]]
XLM_FIRST = ["<s>", "<pad>", "</s>", "<unk>"]  # in place of the file's first three pieces


def tokenizer(folder: Path, architecture: str, values: dict[str, Any]) -> Tokenizer:
    metadata = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    metadata["general.architecture"] = architecture
    file = GgufFile.read(gguf_files.write(folder / "a.gguf", metadata, {}))
    return Tokenizer.from_str(json.dumps(tokenizer_files.files(Metadata(file))["tokenizer.json"]))


def written(name: str, folder: Path) -> tuple[Any, Any]:
    """A SentencePiece file of a case: its processor and its content."""
    path = next(path for path in raw.write(name, folder).iterdir() if path.suffix == ".model")
    content: Any = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    content.ParseFromString(path.read_bytes())
    processor: Any = sentencepiece.SentencePieceProcessor()
    processor.LoadFromFile(str(path))
    return processor, content


def ids(rust: Tokenizer, text: str) -> list[int]:
    return rust.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", ["gemma", "llama"])
def test_byte_pairs_of_sentencepiece(tmp_path: Path, name: str) -> None:
    processor, content = written(name, tmp_path)
    values = {
        "model": "llama",
        "tokens": [piece.piece for piece in content.pieces],
        "scores": [float(piece.score) for piece in content.pieces],
        "token_type": [int(piece.type) for piece in content.pieces],
        "add_space_prefix": name == "llama",
        "bos_token_id": processor.bos_id(),
        "unknown_token_id": processor.unk_id(),
    }
    rust = tokenizer(tmp_path, name, values)
    assert [ids(rust, text) for text in TEXTS] == [processor.EncodeAsIds(text) for text in TEXTS]
    assert rust.encode("a").ids == [processor.bos_id(), *processor.EncodeAsIds("a")]


def test_unigrams_in_the_order_of_xlm_roberta(tmp_path: Path) -> None:
    processor, content = written("xlm_roberta", tmp_path)
    pieces = content.pieces[3:]
    values = {
        "model": "t5",
        "tokens": [*XLM_FIRST, *(piece.piece for piece in pieces)],
        "scores": [*[0.0] * 4, *(float(piece.score) for piece in pieces)],
        "token_type": [3, 3, 3, 2, *(int(piece.type) for piece in pieces)],
        "precompiled_charsmap": list(content.normalizer_spec.precompiled_charsmap),
        "bos_token_id": 0,
        "eos_token_id": 2,
        "unknown_token_id": 3,
    }
    rust = tokenizer(tmp_path, "bert", values)
    for text in TEXTS:
        expected = [3 if id == processor.unk_id() else id + 1 for id in processor.EncodeAsIds(text)]
        assert rust.encode(text).ids == [0, *expected, 2]
    assert rust.encode("", "").tokens == ["<s>", "</s>", "</s>", "</s>"]


def test_byte_pairs_of_qwen(tmp_path: Path) -> None:
    content = json.loads(kinds.text("qwen"))
    vocabulary = content["model"]["vocab"]
    merges = content["model"]["merges"]
    values = {
        "model": "gpt2",
        "pre": "qwen2",
        "tokens": sorted(vocabulary, key=vocabulary.__getitem__),
        "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
    }
    rust, original = tokenizer(tmp_path, "qwen3", values), Tokenizer.from_str(kinds.text("qwen"))
    plain = [text for text in TEXTS if "<|" not in text]
    assert [ids(rust, text) for text in plain] == [ids(original, text) for text in plain]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "rwkv"}, r"tokenizer\.ggml\.model = 'rwkv' is not supported"),
        ({"model": "gpt2", "tokens": ["a"], "pre": "tekken"}, r"ggml\.pre = 'tekken' is not"),
        ({"model": "gpt2"}, r"tokenizer\.ggml\.tokens is missing"),
    ],
)
def test_other_tokenizers_are_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        tokenizer(tmp_path, "qwen3", values)
