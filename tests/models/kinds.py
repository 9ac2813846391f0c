"""A small tokenizer of every kind that a tokenizer.json can hold, trained on the licence."""

import json
import string
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

PROSE = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
BYTES = pre_tokenizers.ByteLevel.alphabet()
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def wordpiece() -> Tokenizer:
    """BERT's: lower-cased, [CLS] and [SEP] around."""
    rust = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    rust.normalizer = normalizers.BertNormalizer()
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    train(rust, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    frame(rust, "[CLS] $A [SEP]")
    return rust


def wordlevel() -> Tokenizer:
    """Whole lowercase words, without special tokens around."""
    rust = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    rust.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    rust.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    train(rust, trainers.WordLevelTrainer(special_tokens=["[UNK]"]))
    return rust


def gpt2() -> Tokenizer:
    """Bytes, no special tokens around; the places of tokens hold the space before."""
    return bytelevel()


def roberta() -> Tokenizer:
    """Bytes with a space put before the text and trimmed from the places; <s> and </s> around."""
    rust = bytelevel(prefix=True, special=["<s>", "<pad>", "</s>", "<unk>"])
    rust.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    rust.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return rust


def qwen() -> Tokenizer:
    """Bytes of composed characters; one special token at the end."""
    split = pre_tokenizers.Split(Regex(QWEN), "isolated")
    rust = bytelevel(split, special=["<|endoftext|>"])
    rust.normalizer = normalizers.NFC()
    frame(rust, "$A <|endoftext|>")
    return rust


def llama3() -> Tokenizer:
    """Bytes; one special token at the start; words that are in the vocabulary need no merges."""
    split = pre_tokenizers.Split(Regex(LLAMA), "isolated")
    rust = bytelevel(split, special=["<|begin_of_text|>"])
    rust.model.ignore_merges = True
    frame(rust, "<|begin_of_text|> $A")
    return rust


def clip() -> Tokenizer:
    """Lowercased bytes, with a suffix at the end of a word and no spaces."""
    rust = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    rust.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    rust.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    rust.decoder = decoders.ByteLevel()
    ends = [letter + "</w>" for letter in BYTES]
    special = [*BYTES, *ends, "<|startoftext|>", "<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=800, special_tokens=special, end_of_word_suffix="</w>", show_progress=False
    )
    train(rust, trainer)
    plain(rust, {"<|startoftext|>", "<|endoftext|>"})
    frame(rust, "<|startoftext|> $A <|endoftext|>")
    return rust


def llama() -> Tokenizer:
    """BPE over the whole text, with spaces as letters and bytes for unknown letters; <s> before."""
    rust = joined()
    rust.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    rust.decoder = decoders.Sequence([*fallback(), decoders.Strip(" ", 1, 0)])
    frame(rust, "<s> $A")
    return rust


def metallama() -> Tokenizer:
    """The same with the pre-tokeniser that newer files have instead of the normaliser."""
    rust = llama()
    rust.normalizer = None
    rust.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return rust


def gemma() -> Tokenizer:
    """The same with nothing before the text, and both special tokens."""
    rust = joined()
    rust.normalizer = normalizers.Replace(" ", "▁")
    rust.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    rust.decoder = decoders.Sequence(fallback())
    frame(rust, "<s> $A </s>")
    return rust


def unigram() -> Tokenizer:
    """XLM-RoBERTa's: the likeliest pieces of each word, <s> and </s> around."""
    rust = pieces()
    rust.normalizer = normalizers.NFKC()
    rust.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    frame(rust, "<s> $A </s>")
    return rust


def whole_unigram() -> Tokenizer:
    """The likeliest pieces of the whole text, with spaces as letters."""
    rust = pieces()
    rust.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Strip(left=False),
            normalizers.Replace(Regex(" {2,}"), "▁"),
        ]
    )
    rust.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    frame(rust, "$A </s>")
    return rust


def bytelevel(
    split: pre_tokenizers.PreTokenizer | None = None,
    *,
    prefix: bool = False,
    special: list[str] | None = None,
) -> Tokenizer:
    rust = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=split is None)
    rust.pre_tokenizer = pre_tokenizers.Sequence([split, level]) if split else level
    rust.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special or [],
        initial_alphabet=BYTES,
        show_progress=False,
    )
    train(rust, trainer)
    return rust


def joined() -> Tokenizer:
    rust = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    codes = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<unk>", "<s>", "</s>", *codes],
        initial_alphabet=["▁", "\n", *string.ascii_letters],
        show_progress=False,
    )
    train(rust, trainer)
    plain(rust, {"<unk>", "<s>", "</s>"})
    rust.pre_tokenizer = None
    return rust


def fallback() -> list[decoders.Decoder]:
    return [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def pieces() -> Tokenizer:
    rust = Tokenizer(models.Unigram())
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=400, unk_token="<unk>", special_tokens=special, show_progress=False
    )
    train(rust, trainer)
    return rust


def train(rust: Tokenizer, trainer: trainers.Trainer) -> None:
    rust.train_from_iterator(PROSE.splitlines(), trainer)


def frame(rust: Tokenizer, template: str) -> None:
    special = [name for name in template.split() if name != "$A"]
    rust.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(name, rust.token_to_id(name)) for name in special]
    )


def plain(rust: Tokenizer, special: set[str]) -> None:
    """Keep only these tokens special, because a trainer makes all kept tokens special."""
    raw = json.loads(rust.to_str())
    raw["added_tokens"] = [token for token in raw["added_tokens"] if token["content"] in special]
    rust.__setstate__(json.dumps(raw).encode())


BUILDERS: Mapping[str, Callable[[], Tokenizer]] = {
    builder.__name__: builder
    for builder in (
        wordpiece,
        wordlevel,
        gpt2,
        roberta,
        qwen,
        llama3,
        clip,
        llama,
        metallama,
        gemma,
        unigram,
        whole_unigram,
    )
}


@cache
def text(kind: str) -> str:
    """The tokenizer.json of a kind."""
    return BUILDERS[kind]().to_str()


def write(kind: str, folder: Path) -> Path:
    """Save a tokenizer as tokenizer.json in a folder, and return the folder."""
    (folder / "tokenizer.json").write_text(text(kind), encoding="utf-8")
    return folder
