"""Tests of CANINE against transformers: its states, and its tokens."""

import copy
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import CanineForSequenceClassification, CanineModel, CanineTokenizer

from embedwell_classic.convert.model import convert_folder
from embedwell_models import families
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.classic.canine_files import write_canine
from tests.models.classic.cases import CANINE
from tests.models.classic.cases import CANINE_SIZES as SIZES
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    custom_layers_encoder,
    states,
    write,
)
from tests.models.families.exact import assert_near, expected, expected_list
from tests.models.families.files import assert_refused, assert_same_weights, edit, loaded, rename
from tests.models.model_files.options import POOLING, TRANSFORMER

pytestmark = pytest.mark.full  # a family that few use, with large tests
RATE = 4
CASES = [
    CANINE,
    Case("canine", {"layer_norm_eps": 0.05, "hidden_act": "relu", "type_vocab_size": 1}, SIZES),
    Case("canine", {"downsampling_rate": 3, "upsampling_kernel_size": 5}, SIZES),
    Case("canine", {"num_hash_functions": 4, "local_transformer_stride": 7}, SIZES),
    Case("canine", {"num_labels": 3}, SIZES, model=CanineForSequenceClassification),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
# Shorter than a molecule, of a whole number of them, and of several blocks of 128.
LENGTHS = (3, 4, 40, 1, 17, 16, 33, 140)
TEXTS = ["A cat.", "", "日本語, ñ and 🙂\u0301", "a  \ue003b \ue000", "x" * 300, "tab\tnew\nline\0"]


def texts() -> list[Tensor]:
    noise = torch.Generator().manual_seed(3)
    return [torch.randint(1, 0x110000, (length,), generator=noise) for length in LENGTHS]


@torch.inference_mode()
def reference(model: Any, row: Tensor) -> list[Tensor]:
    """The states of characters, those of molecules as they are upsampled, after each layer.

    A text is padded to the size of a molecule, without which transformers cannot compute it.
    """
    body = getattr(model, "canine", model)
    missing = max(body.config.downsampling_rate - len(row), 0)
    ids = torch.nn.functional.pad(row, (0, missing))[None]
    mask = torch.nn.functional.pad(torch.ones_like(row), (0, missing))[None]
    hidden = body(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    first, deep, last = hidden[:2], hidden[2:-2], hidden[-2:]
    deep = [body._repeat_molecules(each, ids.shape[1]) for each in deep]
    return [each[0, : len(row)] for each in (*first, *deep, *last)]


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    model, rows = write(case, tmp_path), texts()
    exact = [expected_list(model, partial(reference, row=row)) for row in rows]
    ours = custom_layers_encoder(tmp_path)
    assert ours.config.num_layers == len(exact[0]) - 1
    for layer in range(ours.config.num_layers + 1):
        for mine, theirs in zip(states(ours, rows, layer), exact, strict=True):
            assert_close(mine, theirs[layer])


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    ours, rows = custom_layers_encoder(tmp_path), texts()
    for batch in (rows, rows[2:3] + rows[4:]):  # with and without padding
        together = states(ours, batch, ours.config.num_layers)
        for row, among in zip(batch, together, strict=True):
            assert torch.equal(states(ours, [row], ours.config.num_layers)[0], among)


def _mean(model: Any, row: Tensor) -> Tensor:
    return reference(model, row)[-1].mean(dim=0)


def test_a_text_has_the_mean_of_its_states_through_the_facade(tmp_path: Path) -> None:
    model: Any = write(CASES[0], tmp_path)
    edit(tmp_path, architectures=["CanineModel"])
    embedder = Embedder.load(tmp_path, device="cpu")
    ids = [torch.tensor(row) for row in embedder.tokenize(TEXTS)]
    vectors = embedder.embed(TEXTS)
    means = [expected(model, partial(_mean, row=row)) for row in ids]
    for vector, mean in zip(vectors, means, strict=True):
        assert_near(vector, mean)
    assert all(
        np.array_equal(embedder.embed([text])[0], vector)
        for text, vector in zip(TEXTS, vectors, strict=True)
    )
    parts = [
        embedder.hidden([ids[0].tolist()], part)[0] for part in ("token", "position", "segment")
    ]
    norm = model.char_embeddings.LayerNorm
    with torch.inference_mode():
        first = norm(torch.from_numpy(np.sum(parts, axis=0))).numpy()
    np.testing.assert_allclose(embedder.hidden([ids[0].tolist()], 0)[0], first, atol=1e-5)


new_tokenizer: Any = CanineTokenizer


@pytest.fixture(scope="module")
def saved_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The default tokenizer, which takes a second to build, and the folder of its files."""
    tokenizer, folder = new_tokenizer(), tmp_path_factory.mktemp("canine")
    tokenizer.save_pretrained(folder)
    return tokenizer, folder


@pytest.fixture
def default_tokenizer(saved_tokenizer: tuple[Any, Path], tmp_path: Path) -> Any:
    """The default tokenizer; the test's folder has a model and the files of this tokenizer."""
    tokenizer, files = saved_tokenizer
    write_canine(tmp_path)
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    return tokenizer


@pytest.mark.parametrize("side", ["right", "left"])
def test_tokens_are_those_of_transformers(
    side: str, saved_tokenizer: tuple[Any, Path], tmp_path: Path
) -> None:
    write_canine(tmp_path)
    theirs = copy.copy(saved_tokenizer[0])
    theirs.init_kwargs = {**theirs.init_kwargs, "model_max_length": 20, "truncation_side": side}
    theirs.model_max_length, theirs.truncation_side = 20, side
    theirs.save_pretrained(tmp_path)
    ours = ModelDescription.read(tmp_path, ModelOptions(pooling="mean")).tokenizer()
    expected = theirs(TEXTS, truncation=True)["input_ids"]
    assert [row.ids for row in ours.encode(TEXTS)] == expected
    assert ours.decode(expected) == theirs.batch_decode(expected, skip_special_tokens=True)
    assert ours.special_id("pad") == theirs.pad_token_id
    assert [ours.special_tokens.prefix, ours.special_tokens.suffix] == [
        [theirs.cls_token_id],
        [theirs.sep_token_id],
    ]


@pytest.mark.usefixtures("default_tokenizer")
def test_spaces_before_a_mask_are_left_out_where_the_files_say_so(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    options = json.loads(path.read_text(encoding="utf-8"))
    options["added_tokens_decoder"][str(0xE003)]["lstrip"] = True
    path.write_text(json.dumps(options), encoding="utf-8")
    texts = [*TEXTS, "  \ue003 \ue003"]
    expected = CanineTokenizer.from_pretrained(tmp_path)(texts)["input_ids"]
    ours = ModelDescription.read(tmp_path, ModelOptions(pooling="mean")).tokenizer()
    assert [row.ids for row in ours.encode(texts)][:4] == expected[:4]
    assert ours.encode(texts)[-1].ids == expected[-1] == [0xE000, 0xE003, 0xE003, 0xE001]


@pytest.mark.usefixtures("default_tokenizer")
def test_tokens_have_the_offsets_of_their_characters(tmp_path: Path) -> None:
    text = "a \ue003é"
    tokens = (
        ModelDescription.read(tmp_path, ModelOptions(pooling="mean"))
        .tokenizer()
        .tokens(text, prompt="to: ")
    )
    assert [token.text for token in tokens] == ["[CLS]", *"to: a \ue003é", "[SEP]"]
    assert [token.start for token in tokens] == [*[None] * 5, 0, 1, 2, 3, None]


def test_a_long_text_is_tokenized_in_parts(default_tokenizer: Any, tmp_path: Path) -> None:
    text = "some words, " * 30_000 + "日本，" * 30_000
    ours = ModelDescription.read(tmp_path, ModelOptions(pooling="mean")).tokenizer(
        max_chunk_size=100_000
    )
    assert len([*ours.token_chunks(text)]) > 4
    ids = [token.id for token in ours.tokens(text)]
    assert ids == default_tokenizer(text)["input_ids"]


def test_a_length_that_no_file_states_is_that_of_transformers(
    saved_tokenizer: tuple[Any, Path], tmp_path: Path
) -> None:
    sizes = {**SIZES, "num_hash_buckets": 5000, "max_position_embeddings": 5000}
    write(Case("canine", {}, sizes), tmp_path)
    assert (
        ModelDescription.read(tmp_path, ModelOptions(pooling="mean")).recipe.max_length
        == saved_tokenizer[0].model_max_length
    )


def test_a_pickle_is_converted_without_a_vocabulary(
    saved_tokenizer: tuple[Any, Path], tmp_path: Path
) -> None:
    source, target = tmp_path / "old", tmp_path / "new"
    write_canine(source)
    shutil.copytree(saved_tokenizer[1], source, dirs_exist_ok=True)
    before = loaded(source)
    torch.save(CanineModel.from_pretrained(source).state_dict(), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    convert_folder(source, target)
    assert_same_weights(loaded(target), before)


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    before = loaded(tmp_path)
    rename(tmp_path, {"^": "canine."})
    assert_same_weights(loaded(tmp_path), before)


def test_other_sizes_and_options_are_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_refused(tmp_path, is_decoder=True, hidden_act="mish")
    for options in ({"num_hash_functions": 7}, {"downsampling_rate": 17}):
        edit(tmp_path, **options)
        with pytest.raises(ModelError, match=f"{next(iter(options)).split('_')[1]}"):
            families.read(tmp_path)
        edit(tmp_path, *options)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tokenizer_config.json", {"cls_token": "[CLS]"}, r"cls_token = '\[CLS\]'"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["x.Own", None]}}, "Own"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case"),
    ],
)
def test_other_tokenizers_are_refused(
    file: str, content: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write(CASES[0], tmp_path)
    modules = [TRANSFORMER, POOLING]
    (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / file).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(tmp_path, ModelOptions(pooling="mean")).tokenizer()


def test_rerankers_are_refused(tmp_path: Path) -> None:
    write(CASES[-1], tmp_path)
    with pytest.raises(ModelError, match="classification head of canine"):
        ModelDescription.read(tmp_path)
