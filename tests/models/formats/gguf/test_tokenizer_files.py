"""Tokenizers of GGUF files have the ids of the SentencePiece files that they were made of."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

from embedwell_formats.gguf import tokenizer_files
from embedwell_formats.gguf.file import GgufFile, Metadata
from embedwell_models.errors import ModelError
from tests.conftest import UNUSUAL_TEXTS
from tests.models import gguf_files, kinds, raw

TEXTS = [*UNUSUAL_TEXTS, *kinds.PROSE.splitlines()[:40]]
XLM_FIRST = ["<s>", "<pad>", "</s>", "<unk>"]  # in place of the file's first three pieces


def tokenizer(
    folder: Path, architecture: str, values: dict[str, Any], keys: Mapping[str, Any] = {}
) -> Tokenizer:
    metadata = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    metadata |= {"general.architecture": architecture, **keys}
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


def test_a_word_piece_keeps_accents_that_its_vocabulary_has(tmp_path: Path) -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    values = {"model": "bert", "bos_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1}
    words = [*special, "▁schone", "▁sch", "one", "▁uber"]
    plain = tokenizer(tmp_path, "bert", {**values, "tokens": words})
    assert plain.encode("Schöne ÜBER").tokens == ["[CLS]", "schone", "uber", "[SEP]"]
    accented = {**values, "tokens": [*words, "▁schöne", "▁über"]}
    kept = tokenizer(tmp_path, "bert", accented)
    assert kept.encode("Schöne ÜBER").tokens == ["[CLS]", "schöne", "über", "[SEP]"]
    for strips in (True, False):
        stated = {**accented, "normalizer.lowercase": True, "normalizer.strip_accents": strips}
        token = "schone" if strips else "schöne"
        assert tokenizer(tmp_path, "bert", stated).encode("Schöne").tokens[1] == token


BYTES = ["<s>", "<pad>", "</s>", "<|endoftext|>", "<|im_end|>", "a", "1", "2", "ab", "12"]
PLAIN = {"model": "gpt2", "tokens": BYTES, "token_type": [3] * 5 + [1] * 5, "merges": ["1 2"]}


@pytest.mark.parametrize("pre", [{}, {"pre": "default"}, {"pre": "gpt-2"}, {"pre": "roberta-bpe"}])
def test_a_roberta_has_tokens_around_a_text_whatever_the_file_leaves_out(
    tmp_path: Path, pre: dict[str, str]
) -> None:
    values = {**PLAIN, **pre, "bos_token_id": 0, "eos_token_id": 2}
    rust = tokenizer(tmp_path, "bert", values)
    assert rust.encode("a").tokens == ["<s>", "a", "</s>"]
    assert rust.encode("a", "a").tokens == ["<s>", "a", "</s>", "</s>", "a", "</s>"]
    stated = {**values, "add_bos_token": False, "add_eos_token": False}
    assert tokenizer(tmp_path, "bert", stated).encode("a").tokens == ["a"]


@pytest.mark.parametrize(
    ("keys", "end"),
    [
        ({"eos_token_id": 4}, ["<|endoftext|>"]),
        ({"eos_token_id": 3}, ["<|endoftext|>"]),
        ({"eos_token_id": 3, "add_eos_token": True}, ["<|endoftext|>"]),
        ({"eos_token_id": 4, "add_eos_token": False}, []),
        ({"eos_token_id": 2, "add_eos_token": True}, ["</s>"]),
    ],
)
def test_a_qwen3_of_last_tokens_ends_texts_as_qwen3_embedding_does(
    tmp_path: Path, keys: dict[str, object], end: list[str]
) -> None:
    pooling = {"qwen3.pooling_type": 3}
    rust = tokenizer(tmp_path, "qwen3", {**PLAIN, **keys}, pooling)
    assert rust.encode("a").tokens == ["a", *end]
    plain = tokenizer(tmp_path, "qwen3", {**PLAIN, "eos_token_id": 4})
    assert plain.encode("a").tokens == ["a"], "a model of texts, without pooling"


def test_the_end_of_a_message_is_an_end_of_texts_only_of_a_known_model(tmp_path: Path) -> None:
    values = {**PLAIN, "eos_token_id": 4, "add_eos_token": True}
    keys = {"qwen3.pooling_type": 3, "general.name": "Qwen3 Embedding 0.6B"}
    assert tokenizer(tmp_path, "qwen3", values, keys).encode("a").tokens == ["a", "<|endoftext|>"]
    keys["general.name"] = "F2LLM"
    with pytest.raises(ModelError, match="does not say which model it is: give the folder"):
        tokenizer(tmp_path, "qwen3", values, keys)


@pytest.mark.parametrize(
    ("pre", "tokens"),
    [("qwen2", ["1", "2"]), ("llama-bpe", ["12"]), ("smollm", ["1", "2"]), ("gpt-2", ["12"])],
)
def test_digits_are_split_as_the_name_of_the_split_says(
    tmp_path: Path, pre: str, tokens: list[str]
) -> None:
    rust = tokenizer(tmp_path, "llama", {**PLAIN, "pre": pre})
    assert rust.encode("12", add_special_tokens=False).tokens == tokens


def test_a_llama_whose_split_is_not_stated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.ggml\.pre = 'default' is not supported"):
        tokenizer(tmp_path, "llama", PLAIN)
    rust = tokenizer(tmp_path, "qwen2", PLAIN)
    assert rust.encode("12").tokens == ["1", "2"], "as in Qwen's own repositories"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "rwkv"}, r"tokenizer\.ggml\.model = 'rwkv' is not supported"),
        ({"model": "gpt2", "tokens": ["a"], "pre": "kimi-k2"}, r"ggml\.pre = 'kimi-k2' is not"),
        ({"model": "gpt2"}, r"tokenizer\.ggml\.tokens is missing"),
    ],
)
def test_other_tokenizers_are_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        tokenizer(tmp_path, "qwen3", values)
