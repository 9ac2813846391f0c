"""LASER 2 and 3 compared with torch's own LSTM and attention, and SentencePiece's own pieces."""

import math
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sacremoses import MosesPunctNormalizer
from sentencepiece import SentencePieceProcessor
from tokenizers import normalizers
from torch import Tensor, nn

from embedwell_classic.convert.laser import convert_laser, normalizer_steps
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.precision.references import SENTENCES
from tests.models import raw
from tests.models.laser_files import HEADS, LAYERS, WIDTH, write_laser2, write_laser3

TEXTS = [
    *("The Licence (c) says: „copyright“.", "x", "a work, such as it is", "ΣΟΦΟΣ “a”... \u200d"),
    *("THIS IS A LONGER TEXT " * 9, '"Quoted," he said', "日本 😀", "a\u00a0b»"),
    *(unicodedata.normalize("NFD", text) for text in raw.COMPOSED),
    *("ｶﾞｷﾞ ﾊﾟ", "the ﬁrst\tｗｏｒｋ"),
]


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu")


def moses() -> Any:
    normalizer: Any = MosesPunctNormalizer("en", perl_parity=True)
    # As LASER has it, for the single quotation marks of Moses' release 4.
    normalizer.substitutions[21] = ("‘", '"')
    normalizer.substitutions[22] = ("‚", '"')
    return normalizer


def prepared(text: str) -> str:
    """Text after LASER's normalisation, the input of SentencePiece."""
    printed = [" " if unicodedata.category(c).startswith("C") else c for c in text]
    normal: str = moses().normalize("".join(printed))
    return normal.lower()


def dictionary_ids(text: str, dictionary: dict[str, int], spm: Path) -> Tensor:
    file: Any = SentencePieceProcessor(model_file=str(spm))
    pieces = file.encode(prepared(text), out_type=str)
    return torch.tensor([*(dictionary.get(piece, 3) for piece in pieces), 2])


@torch.inference_mode()
def lstm_vector(text: str, path: Path, lstm: nn.LSTM) -> Tensor:
    """LASER 2's vector of a text, computed by torch's LSTM."""
    state = torch.load(path, weights_only=True)
    ids = dictionary_ids(text, state["dictionary"], path.with_suffix(".spm"))
    states, _ = lstm(state["model"]["embed_tokens.weight"][ids][:, None])
    maximum: Tensor = states[:, 0].amax(dim=0)
    return maximum


def test_laser_2_equals_torch_and_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    path = tmp_path / "laser2.pt"
    lstm = write_laser2(path)
    convert_laser(path, tmp_path / "model")
    ours = load(tmp_path / "model")
    vectors = ours.embed(TEXTS)
    expected = torch.stack([lstm_vector(text, path, lstm) for text in TEXTS])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    alone = np.concatenate([ours.embed([text]) for text in TEXTS])
    assert vectors.tobytes() == alone.tobytes()


def test_every_layer_of_laser_2_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "laser2.pt"
    lstm = write_laser2(path)
    convert_laser(path, tmp_path / "model")
    ours = load(tmp_path / "model")
    ids = ours.tokenize(["a work"])
    first = nn.LSTM(WIDTH, lstm.hidden_size, bidirectional=True)
    names = first.state_dict().keys()
    first.load_state_dict({name: lstm.state_dict()[name] for name in names})
    (token,) = ours.hidden(ids, 0)
    np.testing.assert_array_equal(ours.hidden(ids, "token")[0], token)
    with torch.inference_mode():
        expected, _ = first(torch.from_numpy(token)[:, None])
    np.testing.assert_allclose(ours.hidden(ids, 1)[0], expected[:, 0], atol=1e-6)


@torch.inference_mode()
def transformer_vector(text: str, path: Path) -> Tensor:
    """LASER 3's vector of a text, computed from the formulas in double precision."""
    state = torch.load(path, weights_only=False)
    model = {name: part.double() for name, part in state["model"].items()}
    options = vars(state["cfg"]["model"])
    lines = path.with_suffix(".cvocab").read_text(encoding="utf-8").splitlines()
    dictionary = {line.split()[0]: id for id, line in enumerate(lines, 4)}
    ids = dictionary_ids(text, dictionary, path.with_suffix(".spm"))
    ids = torch.cat([torch.zeros(int(options["prepend_bos"]), dtype=torch.int64), ids])
    x = model["encoder.embed_tokens.weight"][ids] * math.sqrt(WIDTH)
    for row, position in enumerate(range(2, 2 + len(ids))):
        for i in range(WIDTH // 2):
            angle = position / 10000 ** (i / (WIDTH // 2 - 1))
            x[row, i] += math.sin(angle)
            x[row, WIDTH // 2 + i] += math.cos(angle)
    before = options["encoder_normalize_before"]

    def norm(name: str, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(
            x, (WIDTH,), model[f"{name}.weight"], model[f"{name}.bias"], 1e-5
        )

    def linear(name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, model[f"{name}.weight"], model[f"{name}.bias"])

    for index in range(LAYERS):
        name = f"encoder.layers.{index}"
        y = norm(f"{name}.self_attn_layer_norm", x) if before else x
        heads = [
            linear(f"{name}.self_attn.{part}_proj", y).view(len(y), HEADS, -1).transpose(0, 1)
            for part in "qkv"
        ]
        scores = heads[0] @ heads[1].mT / math.sqrt(WIDTH // HEADS)
        mixed = (scores.softmax(-1) @ heads[2]).transpose(0, 1).flatten(1)
        x = x + linear(f"{name}.self_attn.out_proj", mixed)
        x = x if before else norm(f"{name}.self_attn_layer_norm", x)
        y = norm(f"{name}.final_layer_norm", x) if before else x
        x = x + linear(f"{name}.fc2", linear(f"{name}.fc1", y).relu())
        x = x if before else norm(f"{name}.final_layer_norm", x)
    x = norm("encoder.layer_norm", x) if before else x
    return x[0] if options["sentemb_criterion"] == "cls" else x.amax(dim=0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sentemb_criterion": "maxpool", "prepend_bos": False},
        {"encoder_normalize_before": False},
    ],
    ids=str,
)
def test_laser_3_equals_its_formulas(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "laser3-xyz_Latn.v1.pt"
    write_laser3(path, **options)
    convert_laser(path, tmp_path / "model")
    ours = Embedder.load(tmp_path / "model", device="cpu", dtype="float32")
    texts = [text for text in TEXTS if len(ours.tokenize([text])[0]) < 64]
    vectors = ours.embed(texts)
    expected = torch.stack([transformer_vector(text, path) for text in texts])
    assert len(texts) >= 7
    np.testing.assert_allclose(vectors, expected, atol=2e-5)


def test_text_is_prepared_as_laser_prepares_it() -> None:
    alphabet = [*"ab1 2(),.;:%\"'`´‘’‚„“”–—…«»\u00a0?!\n\tΣ", "cm", "nº", "ºC", "''", "\u200d"]
    chosen = random.Random(1)
    texts = ["".join(chosen.choices(alphabet, k=chosen.randint(1, 12))) for _ in range(1500)]
    steps = normalizers.Sequence(normalizer_steps())
    for text in [*SENTENCES, *TEXTS, *texts]:
        assert steps.normalize_str(text) == prepared(text), repr(text)


class Other:
    """A class that a pickle may not contain."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": {}}, r"is not a checkpoint of LASER 2 or 3: KeyError\('cfg'\)"),
        ({"params": {"bidirectional": False}, "model": {}}, "one direction"),
        ({"params": Other()}, "holds more than tensors"),
        ([1], "but holds a list"),
    ],
    ids=["model", "direction", "code", "list"],
)
def test_another_file_is_refused_by_name(tmp_path: Path, content: Any, message: str) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ModelError, match=rf"a\.pt.*{message}"):
        convert_laser(tmp_path / "a.pt", tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_checkpoint_without_its_pieces_is_refused(tmp_path: Path) -> None:
    write_laser2(tmp_path / "laser2.pt")
    (tmp_path / "laser2.spm").rename(tmp_path / "other.spm")
    with pytest.raises(ModelError, match=r"neither laser2\.spm nor laser2\.spm is next to it"):
        convert_laser(tmp_path / "laser2.pt", tmp_path / "model")
    (tmp_path / "laser2.spm").write_bytes(b"\0\1\2")
    with pytest.raises(ModelError, match=r"laser2\.spm is not a SentencePiece file"):
        convert_laser(tmp_path / "laser2.pt", tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-3], "pieces, but the table has"),
        (lambda lines: [*lines, "x 1", "y 1"], "pieces, but the table has"),
        (lambda lines: [*lines[:4], "piece", *lines[5:]], "line 5 is not a piece and its count"),
    ],
)
def test_a_vocabulary_that_does_not_fit_the_table_is_refused(
    tmp_path: Path, change: Callable[[list[str]], list[str]], message: str
) -> None:
    write_laser3(tmp_path / "laser3.pt")
    path = tmp_path / "laser3.cvocab"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    path.write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
    with pytest.raises(ModelError, match=rf"laser3\.cvocab.*{message}"):
        convert_laser(tmp_path / "laser3.pt", tmp_path / "model")


@pytest.mark.parametrize("write", [write_laser2, write_laser3])
def test_a_number_that_is_not_finite_is_refused(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    write(path := tmp_path / "a.pt")
    state = torch.load(path, weights_only=False)
    next(table for name, table in state["model"].items() if "embed_tokens" in name)[0, 0] = np.nan
    torch.save(state, path)
    with pytest.raises(ModelError, match=r"embed_tokens\.weight of a\.pt has NaN"):
        convert_laser(path, tmp_path / "model")


def test_a_row_that_the_table_lacks_is_refused(tmp_path: Path) -> None:
    write_laser2(path := tmp_path / "a.pt")
    state = torch.load(path, weights_only=False)
    state["dictionary"] = {piece: id + 10_000 for piece, id in state["dictionary"].items()}
    torch.save(state, path)
    with pytest.raises(ModelError, match="is not a checkpoint of LASER 2 or 3: IndexError"):
        convert_laser(path, tmp_path / "model")
