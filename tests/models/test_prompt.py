"""Tests of a pooling that leaves the prompt out, against sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from sentence_transformers import SentenceTransformer

from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from tests.conftest import Folder as Write
from tests.models.model_files.chains import SENTENCES, WIDTH
from tests.models.model_files.options import PROMPT, REFERENCE_MODES, write_prompted

EPSILON = 2.0**-23  # of float32
SIZES = {  # which the kernels compute, and which torch does
    "kernels": {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128},
    "torch": {"hidden_size": WIDTH},
}


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


def reference(folder: Path) -> Any:
    return SentenceTransformer(str(folder), device="cpu")


def error(vectors: Any, exact: Any) -> float:
    """The largest distance of a vector to the exact one, relative to its length."""
    distances = np.linalg.norm(vectors - exact, axis=1) / np.linalg.norm(exact, axis=1)
    return float(distances.max())


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("modes", [*REFERENCE_MODES, [*REFERENCE_MODES]], ids=str)
@pytest.mark.full(after=4)
def test_every_pooling_without_the_prompt_equals_sentence_transformers(
    tiny_bert: Write, modes: object, sizes: str
) -> None:
    folder = write_prompted(tiny_bert, modes, SIZES[sizes])
    ours, theirs, texts = load(folder), reference(folder), ["", *SENTENCES]
    exact = reference(folder).to(torch.float64)
    for prompt in (PROMPT, None):
        expected = exact.encode(texts, prompt=prompt)
        # Sums over many tokens are long vectors, of which float32 itself leaves 2e-5: what counts
        # is that we round no worse than sentence-transformers does in the same precision.
        rounding = max(error(theirs.encode(texts, prompt=prompt), expected), 4 * EPSILON)
        assert error(ours.embed(texts, prompt=prompt), expected) <= 4 * rounding


def test_the_fingerprint_is_not_that_of_the_whole_pooled(tiny_bert: Write) -> None:
    folder = write_prompted(tiny_bert, "mean", SIZES["torch"])
    without = model_fingerprint.fingerprint(ModelDescription.read(folder))
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) != without


def test_a_default_prompt_is_left_out_too(tiny_bert: Write) -> None:
    card = {"prompts": {"query": PROMPT}, "default_prompt_name": "query"}
    folder = write_prompted(tiny_bert, "mean", SIZES["torch"], card)
    expected = reference(folder).encode(SENTENCES)
    np.testing.assert_allclose(load(folder).embed(SENTENCES), expected, atol=1e-5)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("prompt", ["for", PROMPT, "of the work ☃", ""])
def test_a_prompt_has_the_length_that_sentence_transformers_finds(
    tiny_bert: Write, prompt: str, special: bool
) -> None:
    folder = write_prompted(tiny_bert, "mean", SIZES["torch"])
    path = folder / "tokenizer.json"
    rust = tokenizers.Tokenizer.from_file(str(path))
    if not special:
        rust.post_processor = None
    rust.save(str(path))
    features = reference(folder).preprocess(["work"], prompt=prompt)
    read = ModelDescription.read(folder)
    prompt_token_count = read.recipe.prompt_token_count(prompt, read.tokenizer())
    assert prompt_token_count == features.get("prompt_length", 0)


def test_an_added_token_that_is_not_special_at_the_prompts_end_counts(tiny_bert: Write) -> None:
    folder = write_prompted(tiny_bert, "mean", SIZES["torch"])
    path = folder / "tokenizer.json"
    rust = tokenizers.Tokenizer.from_file(str(path))
    rust.post_processor = None
    rust.add_tokens(["<new>"])
    rust.add_special_tokens(["<end>"])
    rust.save(str(path))
    tokenizer = ModelDescription.read(folder).tokenizer()
    assert tokenizer.prompt_length("the <new>") == 2
    assert tokenizer.prompt_length("the <end>") == 1


def test_of_a_text_that_is_cut_at_the_left_what_is_left_of_the_prompt_is_left_out(
    tiny_bert: Write,
) -> None:
    folder = write_prompted(tiny_bert, "mean", SIZES["torch"])
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncation_side": "left"}))
    ours = load(folder)
    room = ours.max_length - len(ours.tokenizer.special_tokens)
    prompt_token_count = ours.recipe.prompt_token_count(PROMPT, ours.tokenizer)
    for over in (0, 1, prompt_token_count - 1, prompt_token_count, 5 * room, 5000 * room):  # tokens
        text = " ".join(["work"] * (room - prompt_token_count + 1 + over))
        ids = ours.tokenize([text], prompt=PROMPT)[0]
        expected = ours.encode([ids], prompt_token_counts=[max(prompt_token_count - over, 0)])
        np.testing.assert_array_equal(ours.embed([text], prompt=PROMPT), expected)
    # Of so long words a part of the text is read that has hardly more tokens than the model takes.
    text = " ".join(["ж" * 30] * 1000)
    ids = ours.tokenize([text], prompt=PROMPT)[0]
    np.testing.assert_array_equal(ours.embed([text], prompt=PROMPT), ours.encode([ids]))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_text_is_the_same_bits_alone_and_among_others_with_other_prompts(
    tiny_bert: Write, sizes: str
) -> None:
    ours = load(write_prompted(tiny_bert, ["mean", "max", "weightedmean"], SIZES[sizes]))
    rows = [[2, *range(9, 9 + count), 3] for count in (1, 4, 12, 30)]
    prompt_token_counts = [1, 4, 0, 17]
    together = ours.encode(rows, prompt_token_counts=prompt_token_counts)
    alone = [
        ours.encode([row], prompt_token_counts=[prompt_token_count])
        for row, prompt_token_count in zip(rows, prompt_token_counts, strict=True)
    ]
    assert together.tobytes() == np.concatenate(alone).tobytes()
