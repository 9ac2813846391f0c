"""Older tokenizers, converted, compared with transformers on the original files."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Rust
from transformers import AutoTokenizer

from embedwell_classic.convert import tokenizer
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models import raw
from tests.models.classic.convert.pieces import sentencepiece_file

MARKED = [
    "<s> a </s> <mask> b<pad> <unk> <extra_id_0> x",
    " <mask>  <MASK> [mask] [MASK] <x> y <|endoftext|> a <|im_start|>b <|im_end|> <tool>",
    "``quoted'' 1,000, a",
    "½ ﬁ ① ｆｕｌｌ\u3000width",
    "<s>NOTUSED a",
]
# Those that transformers reads as SentencePiece does.
CASES = [name for name in raw.CASES if name != "llama"]
UNNORMALIZED = ["deberta", "deberta_split"]  # transformers leaves SentencePiece's table out


def is_normal(text: str, folder: Path) -> bool:
    """Whether the SentencePiece file of a folder changes no character of a text."""
    normal: str = sentencepiece_file(folder).normalize(text)
    return normal.removeprefix("▁").replace("▁", " ") == text


def converted(source: Path, target: Path) -> Tokenizer:
    """Convert the tokenizer to a new folder that has the other files of the model."""
    target.mkdir()
    (target / "config.json").write_bytes((source / "config.json").read_bytes())
    tokenizer.convert(source, target)
    return Tokenizer(target, 10_000)


def source(name: str, folder: Path, **options: Any) -> Path:
    """Write the files of a case. options: of tokenizer_config.json."""
    (folder / "source").mkdir()
    raw.write(name, folder / "source")
    path = folder / "source" / "tokenizer_config.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    if options:
        path.write_text(json.dumps({**before, **options}), encoding="utf-8")
    return folder / "source"


@pytest.mark.full(after=6)
@pytest.mark.parametrize("name", CASES)
def test_ids_equal_those_of_transformers_on_the_original(
    name: str, tmp_path: Path, texts: list[str]
) -> None:
    original = source(name, tmp_path)
    theirs: Any = AutoTokenizer.from_pretrained(original)
    ours = converted(original, tmp_path / "target")
    for text in [*texts, *MARKED]:
        if name not in UNNORMALIZED or is_normal(text, original):
            assert ours.encode([text])[0].ids == theirs(text)["input_ids"], text
    assert ours.vocab_size == len(theirs)


@pytest.mark.parametrize("legacy", [True, False])
def test_a_llama_that_names_its_class_is_read_as_by_sentencepiece(
    legacy: bool, tmp_path: Path
) -> None:
    said = {"tokenizer_class": "LlamaTokenizer", "legacy": legacy}
    ours = converted(source("llama", tmp_path, **said), tmp_path / "target")
    assert [token.text for token in ours.tokens("the of", special=False)] == ["the", " of"]


def test_what_transformers_reads_otherwise_than_sentencepiece_is_refused(tmp_path: Path) -> None:
    name = "llama"
    with pytest.raises(ModelError, match=r"tokenizer\.model: transformers splits .* SentencePiece"):
        converted(source(name, tmp_path), tmp_path / "target")


def test_a_pair_of_the_first_deberta_has_one_separator_as_in_training(tmp_path: Path) -> None:
    original = tmp_path / "source"
    original.mkdir()
    letters = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *"ab"]
    vocabulary = {letter: id for id, letter in enumerate(letters)}
    (original / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (original / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    (original / "config.json").write_text('{"model_type": "deberta"}', encoding="utf-8")
    converted(original, tmp_path / "target")
    rust = Rust.from_file(str(tmp_path / "target" / "tokenizer.json"))
    pair = rust.encode("a", "b")
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1]


def test_the_length_and_the_side_of_a_cut_are_kept(tmp_path: Path) -> None:
    original = source("roberta", tmp_path, model_max_length=17, truncation_side="left")
    ours = converted(original, tmp_path / "target")
    said = json.loads((tmp_path / "target" / "tokenizer_config.json").read_text())
    assert ours.side == "left" and said["model_max_length"] == 17


def test_code_of_the_model_is_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    original = source(
        "bert",
        tmp_path,
        tokenizer_class="OwnTokenizer",
        auto_map={"AutoTokenizer": ["own.OwnTokenizer", None]},
    )
    (original / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass OwnTokenizer: pass\n")
    with pytest.raises(ModelError, match="its tokenizer cannot be read"):
        converted(original, tmp_path / "target")
    assert not ran.exists()


PROTEINS = [
    *("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ", "mkt", "MK TA\nYI", "M<mask>K <mask> T", "", " "),
    *("<cls>M<eos>", "MxyzK", "M.K-Z*", "<null_1>M<pad>", "MÅK 東京 M"),
]


def test_the_letters_of_proteins_have_the_ids_of_transformers(tmp_path: Path) -> None:
    original = tmp_path / "source"
    original.mkdir()
    tokens = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>"]
    (original / "vocab.txt").write_text("\n".join([*tokens, "<mask>"]), encoding="utf-8")
    (original / "config.json").write_text('{"model_type": "esm"}', encoding="utf-8")
    said = '{"tokenizer_class": "EsmTokenizer", "model_max_length": 99}'
    (original / "tokenizer_config.json").write_text(said, encoding="utf-8")
    theirs: Any = AutoTokenizer.from_pretrained(original)
    ours = converted(original, tmp_path / "target")
    for text in PROTEINS:
        assert ours.encode([text])[0].ids == theirs(text)["input_ids"], text
    again: Any = AutoTokenizer.from_pretrained(tmp_path / "target")
    assert again(PROTEINS)["input_ids"] == theirs(PROTEINS)["input_ids"]
    assert again.model_max_length == 99


BYTES = [
    "plain",
    "é 東京 \U0001f600\x00\x7f",
    "a</s> x",
    "a <extra_id_3> b  </s>c<pad>",
    "",
    "\n\r \t",
]


def test_the_bytes_of_a_byt5_have_the_ids_of_transformers(tmp_path: Path, texts: list[str]) -> None:
    original = tmp_path / "source"
    original.mkdir()
    (original / "config.json").write_text('{"model_type": "t5"}', encoding="utf-8")
    said = '{"tokenizer_class": "ByT5Tokenizer", "model_max_length": 99}'
    (original / "tokenizer_config.json").write_text(said, encoding="utf-8")
    with pytest.raises(ModelError, match=r"convert MODEL` makes one of tokenizer_config\.json"):
        Tokenizer(original, 10_000)
    theirs: Any = AutoTokenizer.from_pretrained(original)
    ours = converted(original, tmp_path / "target")
    for text in [*texts, *BYTES]:
        assert ours.encode([text])[0].ids == theirs(text)["input_ids"], text
    again: Any = AutoTokenizer.from_pretrained(tmp_path / "target")
    assert again(BYTES)["input_ids"] == theirs(BYTES)["input_ids"]
    assert again.decode(again("é 東京")["input_ids"], skip_special_tokens=True) == "é 東京"


def test_merges_of_a_luke_have_the_ids_of_transformers(tmp_path: Path, texts: list[str]) -> None:
    original = source("roberta", tmp_path, tokenizer_class="LukeTokenizer")
    entities = {"[PAD]": 0, "[UNK]": 1, "[MASK]": 2, "[MASK2]": 3}
    (original / "entity_vocab.json").write_text(json.dumps(entities), encoding="utf-8")
    (original / "config.json").write_text('{"model_type": "luke"}', encoding="utf-8")
    theirs: Any = AutoTokenizer.from_pretrained(original)
    ours = converted(original, tmp_path / "target")
    for text in texts:
        assert ours.encode([text])[0].ids == theirs(text)["input_ids"], text


@pytest.mark.parametrize("name", ["RoFormerTokenizer", "BertJapaneseTokenizer"])
def test_a_tokenizer_that_is_python_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="tokenizer"):
        converted(source("bert", tmp_path, tokenizer_class=name), tmp_path / "target")


def test_files_that_are_missing_are_refused(tmp_path: Path) -> None:
    original = source("roberta", tmp_path)
    (original / "merges.txt").unlink()
    with pytest.raises(ModelError, match=str(original)):
        converted(original, tmp_path / "target")
