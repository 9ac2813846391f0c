"""Tests of static embeddings against sentence-transformers, and model2vec's own rules."""

import contextlib
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tokenizers
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.threads import single_threaded
from embedwell_models.errors import ModelError
from tests.models import tiny
from tests.models.model_files.chains import SENTENCES, randomised

WIDTH = 20
WIDTHS = [WIDTH, 64]  # on torch, and compiled where there is a compiler
TEXTS = ["", *SENTENCES, "the", " "]
KNOWN = [" ".join(re.findall("[a-z]+", text.lower())) for text in TEXTS]
LOST = "for ☃ the"  # the snowman is not in the vocabulary
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> tokenizers.Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny.write_tokenizer(folder)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


def table(width: int = WIDTH) -> Array:
    shape = len(tiny.VOCABULARY), width
    return np.random.default_rng(3).normal(0, 0.3, shape).astype(np.float32)


def model2vec(
    folder: Path, tokenizer: tokenizers.Tokenizer, config: dict[str, Any], **tensors: Array
) -> Path:
    """A folder as model2vec 0.10 writes it."""
    save_file(tensors, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", **config}))
    kinds = {
        "StaticEmbedding": ".",
        **({"Normalize": "1_Normalize"} if "normalize" in config else {}),
    }
    lines = [
        {"name": kind, "type": f"sentence_transformers.models.{kind}", "path": path}
        for kind, path in kinds.items()
    ]
    (folder / "modules.json").write_text(json.dumps(lines))
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "after", [[], [lambda _: st.Normalize()], [lambda width: st.Dense(width, 6)]], ids=len
)
def test_static_embeddings_equal_sentence_transformers(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path, after: list[Any], dtype: str, width: int
) -> None:
    static = st.StaticEmbedding(tokenizer, embedding_weights=table(width))
    parts = [static, *(make(width) for make in after)]
    model = SentenceTransformer(modules=[*map(randomised, parts)], device="cpu")
    expected = model.encode(TEXTS)
    if dtype == "float16":
        model[0].half()
    model.save_pretrained(str(tmp_path), create_model_card=False)
    atol = 1e-5 if dtype == "float32" else 1e-3
    np.testing.assert_allclose(load(tmp_path).embed(TEXTS), expected, atol=atol)


def test_a_table_in_a_folder_of_its_own_is_read_there(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model = SentenceTransformer(
        modules=[st.StaticEmbedding(tokenizer, embedding_weights=table())], device="cpu"
    )
    model.save_pretrained(str(tmp_path), create_model_card=False)
    inner = tmp_path / "0_StaticEmbedding"
    inner.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).rename(inner / name)
    lines = json.loads((tmp_path / "modules.json").read_text())
    lines[0]["path"] = inner.name
    (tmp_path / "modules.json").write_text(json.dumps(lines))
    np.testing.assert_allclose(load(tmp_path).embed(TEXTS), model.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("extra", [(), ("weights",), ("mapping",), ("mapping", "weights")], ids=str)
@pytest.mark.parametrize("normalize", [True, False])
def test_a_model2vec_folder_equals_sentence_transformers(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path, extra: tuple[str, ...], normalize: bool
) -> None:
    noise, count = np.random.default_rng(4), len(tiny.VOCABULARY)
    parts = {"weights": noise.random(count), "mapping": noise.integers(0, 30, count)}
    tensors = {name: parts[name] for name in extra}
    config = {"normalize": True} if normalize else {}
    rows = 30 if "mapping" in extra else count
    model2vec(tmp_path, tokenizer, config, embeddings=table(rows), **tensors)
    expected = SentenceTransformer(str(tmp_path), device="cpu").encode(KNOWN)
    np.testing.assert_allclose(load(tmp_path).embed(KNOWN), expected, atol=1e-5)


def test_files_next_to_a_tables_tokenizer_say_nothing(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model = SentenceTransformer(
        modules=[st.StaticEmbedding(tokenizer, embedding_weights=table())], device="cpu"
    )
    model.save_pretrained(str(tmp_path), create_model_card=False)
    said = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "eos_token": "for"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    texts = [*TEXTS, "The WORK therefore"]
    expected = SentenceTransformer(str(tmp_path), device="cpu").encode(texts)
    np.testing.assert_allclose(load(tmp_path).embed(texts), expected, atol=1e-5)


def test_a_model2vec_folder_without_modules_is_read(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model2vec(tmp_path, tokenizer, {"normalize": True}, embeddings=table())
    whole = load(tmp_path).embed(TEXTS)
    (tmp_path / "modules.json").unlink()
    assert load(tmp_path).embed(TEXTS).tobytes() == whole.tobytes()
    assert load(tmp_path).recipe.normalize


def test_model2vec_that_does_not_say_normalize_is_left_as_it_is(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model2vec(tmp_path, tokenizer, {}, embeddings=table())
    (tmp_path / "modules.json").unlink()
    found = load(tmp_path)
    assert not found.recipe.normalize
    np.testing.assert_allclose(found.embed(["the"])[0], table()[tiny.VOCABULARY["the"]], atol=1e-6)


def test_model2vec_leaves_unknown_tokens_out_and_sentence_transformers_does_not(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    rows = table()
    wanted = {
        "embeddings": rows[[tiny.VOCABULARY[word] for word in ("for", "the")]].mean(axis=0),
        "embedding.weight": rows[[tiny.VOCABULARY[w] for w in ("for", "[UNK]", "the")]].mean(
            axis=0
        ),
    }
    for name, expected in wanted.items():
        folder = tmp_path / name
        folder.mkdir()
        embedder = load(model2vec(folder, tokenizer, {}, **{name: rows}))
        np.testing.assert_allclose(embedder.embed([LOST])[0], expected, atol=1e-6)
        tokens = embedder.tokenizer.tokens(LOST)
        assert [token.id for token in tokens] == embedder.tokenize([LOST])[0]


def test_model2vec_cuts_before_it_leaves_tokens_out(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model2vec(tmp_path, tokenizer, {"max_length": 2}, embeddings=table())
    (row,) = load(tmp_path).tokenizer.encode([LOST])
    assert (row.ids, row.dropped) == ([tiny.VOCABULARY["for"]], 1)


@pytest.mark.parametrize(
    ("config", "length"), [({}, 512), ({"max_length": 7}, 7), ({"max_length": None}, 1 << 20)]
)
def test_the_longest_text_is_as_model2vec_says(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path, config: dict[str, Any], length: int
) -> None:
    model2vec(tmp_path, tokenizer, config, embeddings=table())
    assert load(tmp_path).max_length == length


@pytest.mark.parametrize("width", WIDTHS)
def test_a_text_is_the_same_bits_alone_and_in_a_batch(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path, width: int
) -> None:
    embedder = load(model2vec(tmp_path, tokenizer, {"normalize": True}, embeddings=table(width)))
    single = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert embedder.embed(TEXTS).tobytes() == single.tobytes()


@pytest.mark.parametrize("threads", [contextlib.nullcontext, single_threaded])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_text_of_no_tokens_is_the_zero_vector(
    tokenizer: tokenizers.Tokenizer,
    tmp_path: Path,
    width: int,
    threads: Callable[[], AbstractContextManager[None]],
) -> None:
    embedder = load(model2vec(tmp_path, tokenizer, {"normalize": True}, embeddings=table(width)))
    with threads():
        np.testing.assert_array_equal(embedder.embed(["", ""]), np.zeros((2, width)))
        first, the, last = embedder.embed(["", "the", ""])
        assert not first.any() and the.any() and not last.any()
        states = embedder.hidden([[], [5]])
        assert [each.shape for each in states] == [(0, width), (1, width)]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_vector_of_a_token_is_its_row(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path, width: int
) -> None:
    rows = table(width)
    embedder = load(model2vec(tmp_path, tokenizer, {}, embeddings=rows))
    for layer in (None, 0, "token"):
        np.testing.assert_array_equal(embedder.hidden([[5, 9]], layer)[0], rows[[5, 9]])


def test_a_folder_without_a_table_is_refused(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model2vec(tmp_path, tokenizer, {}, other=table())
    with pytest.raises(ModelError, match=r"lacks 'embedding\.weight' and 'embeddings'"):
        ModelDescription.read(tmp_path)


def test_a_tensor_that_is_not_known_is_refused(
    tokenizer: tokenizers.Tokenizer, tmp_path: Path
) -> None:
    model2vec(tmp_path, tokenizer, {}, embeddings=table(), surprise=table())
    with pytest.raises(ModelError, match="surprise"):
        load(tmp_path)
