"""Tests of a text that a tokenizer puts after every other one."""

import pytest
from tokenizers import AddedToken, Tokenizer, processors

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.special_tokens import SpecialTokens, append_text
from tests.models import kinds

AFTER = "<|im_end|>\nthe end\n"
TEXTS = ["the license", "", " \n of this work \n", "a <|im_end|> b"]


def tokenizer(trim: bool | None = None, **options: bool) -> Tokenizer:
    """Return a byte tokenizer with a special token at the end, or with a trimming step."""
    rust = kinds.qwen()
    rust.add_special_tokens([AddedToken("<|im_end|>", normalized=False, **options)])
    if trim is not None:
        rust.post_processor = processors.ByteLevel(trim_offsets=trim)
    return rust


@pytest.mark.parametrize("trim", [None, True, False])
def test_a_text_is_read_as_if_the_other_followed_it(trim: bool | None) -> None:
    rust, plain = tokenizer(trim), tokenizer(trim)
    append_text(rust, AFTER)
    for text in TEXTS:
        mine, theirs = rust.encode(text), plain.encode(text + AFTER)
        assert mine.ids == theirs.ids
        before = len(plain.encode(text, add_special_tokens=False).ids)
        assert mine.special_tokens_mask == [0] * before + [1] * (len(mine.ids) - before)
        assert mine.offsets[:before] == plain.encode(text).offsets[:before]
        assert rust.encode(text, add_special_tokens=False).ids == mine.ids[:before]
    special = SpecialTokens.detect(rust)
    assert (special.prefix, special.suffix) == ([], rust.encode("").ids)


@pytest.mark.parametrize(
    ("rust", "after"),
    [
        (tokenizer(), "\n<|im_end|>"),
        (tokenizer(lstrip=True), AFTER),
        (tokenizer(single_word=True), AFTER),
        (kinds.llama3(), "<|begin_of_text|>"),
    ],
    ids=["no added token", "strips", "single word", "token before"],
)
def test_a_text_that_may_change_the_one_before_it_is_refused(rust: Tokenizer, after: str) -> None:
    with pytest.raises(ModelError, match=r"ends with .*, which the tokenizer does not tell"):
        append_text(rust, after)
