"""Makes a tokenizer put special tokens around every text."""

from collections.abc import Sequence

from tokenizers import Tokenizer, processors


def surround(rust: Tokenizer, names: Sequence[str]) -> None:
    """Put tokens around what the tokenizer has made of a text so far, which is $A among them."""
    special = [(name, rust.token_to_id(name)) for name in {*names} - {"$A"}]
    around = processors.TemplateProcessing(single=list(names), special_tokens=special)
    own = [] if rust.post_processor is None else [rust.post_processor]
    rust.post_processor = processors.Sequence([*own, around])
