"""Characters that SentencePiece normalises, in a converted tokenizer."""

import unicodedata
from pathlib import Path

import pytest

from tests.models import raw
from tests.models.classic.convert.pieces import converted, sentencepiece_file, tokens

UNCHANGED = ["llama_legacy", "gemma"]  # their files change no characters
WITHOUT_ACCENTS = ["albert", "xlnet"]
CASES = ["xlm_roberta", "camembert", "t5", "mt5", "albert_cased", "deberta", "deberta_split"]
CASES += [*UNCHANGED, *WITHOUT_ACCENTS]

DECOMPOSED = [unicodedata.normalize("NFD", text) for text in raw.COMPOSED]
COMPATIBLE = [
    *("ｶﾞｷﾞ ﾊﾟ ｳﾞ", "ｆｕｌｌ\u3000ｗｉｄｔｈ", "the ﬁrst of the oﬀer", "① ② ½", "the\u00a0work"),
    *("the\u200bwork of\ufeffthe", "the\twork\nof\r\nthe", "the   work  of"),
    *("한\u0301국", "ᄒ", "각\u11a8", "\u0301a", "👩\u200d👧 ☎\ufe0f"),
]


def written(name: str, folder: Path) -> Path:
    (folder / "source").mkdir()
    return raw.write(name, folder / "source")


@pytest.mark.parametrize("name", CASES)
def test_decomposed_texts_are_read_as_composed_ones(name: str, tmp_path: Path) -> None:
    source = written(name, tmp_path)
    file, ours = sentencepiece_file(source), converted(source, tmp_path / "target")
    for text, composed in zip(DECOMPOSED, raw.COMPOSED, strict=True):
        same = file.encode(text) == file.encode(composed)
        assert same == (name not in UNCHANGED), text
        assert (tokens(ours, text) == tokens(ours, composed)) == same, text
        assert not {"<unk>", "[UNK]"}.intersection(tokens(ours, composed)), text


@pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT_ACCENTS])
def test_characters_are_read_as_by_sentencepiece(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = written(name, tmp_path)
    file, ours = sentencepiece_file(source), converted(source, tmp_path / "target")
    for text in [*raw.COMPOSED, *DECOMPOSED, *COMPATIBLE]:
        assert tokens(ours, text) == file.encode(text, out_type=str), text
    assert not caplog.messages


def test_a_file_that_composes_no_letters_is_followed(tmp_path: Path) -> None:
    source, rule = written("xlm_roberta", tmp_path), tmp_path / "rule.tsv"
    rule.write_text(f"{ord('ﬁ'):X}\t{ord('f'):X} {ord('i'):X}\n", encoding="utf-8")
    raw.pieces("sentencepiece.bpe.model", vocab_size=300, normalization_rule_tsv=str(rule))(source)
    file, ours = sentencepiece_file(source), converted(source, tmp_path / "target")
    assert tokens(ours, "the ﬁrst") == tokens(ours, "the first")
    for text in [*raw.COMPOSED, *DECOMPOSED]:
        assert tokens(ours, text) == file.encode(text, out_type=str), text
    assert tokens(ours, DECOMPOSED[0]) != tokens(ours, raw.COMPOSED[0])


def test_kinds_of_texts_that_are_read_otherwise_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (source := tmp_path / "source").mkdir()
    raw.write("llama_legacy", source)
    changed = {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True}
    raw.pieces("tokenizer.model", **{**raw.LLAMA, **changed})(source)
    ours, file = converted(source, tmp_path / "target"), sentencepiece_file(source)
    text = "ｔｈｅ ﬁrst ｶﾞ"
    assert tokens(ours, text) == file.encode(text, out_type=str)
    (message,) = caplog.messages
    assert "tokenizer.model: SentencePiece reads several spaces, outer spaces like" in message
