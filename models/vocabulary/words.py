"""Tokenizers from vocab.txt (WordPiece), and from vocab.json with merges.txt (byte-level BPE)."""

from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from models.vocabulary.added import Added

CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def wordpiece(files: list[Path], added: Added) -> Tokenizer:
    """BERT's: words of letters, split into the longest pieces from the left."""
    unknown = added.name("unk")
    rust = Tokenizer(models.WordPiece.from_file(str(files[0]), unk_token=unknown))
    rust.normalizer = _bert(added)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    return rust


def letters(rust: Tokenizer, added: Added) -> None:
    """What becomes of letters, accents and Chinese, in place of what BERT's file was saved with."""
    if isinstance(rust.normalizer, normalizers.BertNormalizer):
        rust.normalizer = _bert(added)


def bytelevel(files: list[Path], added: Added, **merging: str) -> Tokenizer:
    """GPT-2's: merges of bytes, the space before a word being one of its bytes."""
    vocabulary, merges = map(str, files)
    rust = Tokenizer(models.BPE.from_file(vocabulary, merges, **merging))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=_prefix(added))
    rust.decoder = decoders.ByteLevel()
    return rust


def roberta(files: list[Path], added: Added) -> Tokenizer:
    """The same, with places that leave the space out."""
    rust = bytelevel(files, added)
    if added.options.get("trim_offsets", True):
        rust.post_processor = processors.ByteLevel(add_prefix_space=_prefix(added))
    return rust


def prefix(rust: Tokenizer, added: Added) -> None:
    """Whether a space is put before a text, in place of what the file was saved with."""
    for step in (rust.pre_tokenizer, rust.post_processor):
        if hasattr(step, "add_prefix_space"):
            step.add_prefix_space = _prefix(added)


def qwen(files: list[Path], added: Added) -> Tokenizer:
    """The same of composed characters, with single digits and line ends apart."""
    rust = bytelevel(files, added)
    rust.normalizer = normalizers.NFC()
    level = pre_tokenizers.ByteLevel(add_prefix_space=_prefix(added), use_regex=False)
    split = pre_tokenizers.Split(Regex(QWEN), "isolated")
    rust.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    return rust


def clip(files: list[Path], added: Added) -> Tokenizer:
    """CLIP's: merges of bytes in small letters, with a suffix at the end of a word, no spaces."""
    rust = bytelevel(files, added, end_of_word_suffix="</w>", unk_token=added.name("unk"))
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    rust.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    split = pre_tokenizers.Split(Regex(CLIP), "removed", invert=True)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    return rust


def _bert(added: Added) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=added.options.get("tokenize_chinese_chars", True),
        strip_accents=added.options.get("strip_accents"),  # None: as lowercase
        lowercase=added.options.get("do_lower_case", True),
    )


def _prefix(added: Added) -> bool:
    return bool(added.options.get("add_prefix_space", False))
