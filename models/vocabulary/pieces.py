"""Tokenizers from a SentencePiece file: its pieces and scores, and the rest by family."""

from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from models.errors import ModelError
from models.vocabulary.added import Added
from models.vocabulary.sentencepiece import SentencePiece

Scores = list[tuple[str, float]]
Normalizers = list[normalizers.Normalizer]


def xlm_roberta(files: list[Path], added: Added) -> Tokenizer:
    """Four special tokens in place of the file's three, and a mask at the end."""
    file = _read(files[0], "unigram")
    first = [(added.name(role), 0.0) for role in ("bos", "pad", "eos", "unk")]
    scores = [*first, *file.scores[3:], (added.name("mask"), 0.0)]
    return _unigram(file, added, _charsmap(file), scores)


def camembert(files: list[Path], added: Added) -> Tokenizer:
    """Five special tokens in place of the file's first, and a mask at the end."""
    file = _read(files[0], "unigram")
    pad, unk, mask = (added.name(role) for role in ("pad", "unk", "mask"))
    first = [("<s>NOTUSED", 0.0), (pad, 0.0), ("</s>NOTUSED", 0.0), (unk, 0.0)]
    scores = [*first, ("<unk>NOTUSED", -100.0), *file.scores[1:], (mask, 0.0)]
    return _unigram(file, added, _charsmap(file), scores)


def t5(files: list[Path], added: Added) -> Tokenizer:
    """The file's pieces and then the sentinels, the last one first."""
    file = _read(files[0], "unigram")
    count = added.options.get("extra_ids", 100)
    sentinels = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(count))]
    rust = _unigram(file, added, _charsmap(file), [*file.scores, *sentinels])
    rust.add_special_tokens([text for text, _ in sentinels])
    return rust


def albert(files: list[Path], added: Added) -> Tokenizer:
    """Quotes made plain, accents stripped, letters made small."""
    file = _read(files[0], "unigram")
    accents = added.options.get("keep_accents", False)
    lower = added.options.get("do_lower_case", True)
    return _unigram(file, added, [*_plain(accents, lower), *_charsmap(file)])


def xlnet(files: list[Path], added: Added) -> Tokenizer:
    """The same with capital letters, and accents always stripped."""
    file = _read(files[0], "unigram")
    lower = added.options.get("do_lower_case", False)
    return _unigram(file, added, [*_plain(False, lower), *_charsmap(file)])


def deberta(files: list[Path], added: Added) -> Tokenizer:
    """White space made single, characters composed; no split at white space."""
    file = _read(files[0], "unigram")
    lower = [normalizers.Lowercase()] if added.options.get("do_lower_case") else []
    spaces = normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")
    steps = [*lower, spaces, normalizers.NFC(), normalizers.Strip(left=False)]
    rust = _unigram(file, added, steps)
    scheme = "always" if added.options.get("add_prefix_space", True) else "first"
    rust.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    rust.decoder = decoders.Metaspace(prepend_scheme=scheme)
    if added.options.get("split_by_punct"):
        split = pre_tokenizers.Punctuation("isolated")
        rust.pre_tokenizer = pre_tokenizers.Sequence([split, rust.pre_tokenizer])
    return rust


def llama(files: list[Path], added: Added) -> Tokenizer:
    """Merges over the whole text, with a space before it."""
    rust = _bpe(files[0], added)
    prefix = added.options.get("add_prefix_space")
    scheme = "never" if prefix is False else "always" if added.options.get("legacy") else "first"
    rust.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    before = [] if prefix is False else [decoders.Strip(" ", 1, 0)]
    rust.decoder = decoders.Sequence([*_bytes(), *before])
    return rust


def gemma(files: list[Path], added: Added) -> Tokenizer:
    """Merges over the whole text as it is."""
    rust = _bpe(files[0], added)
    rust.normalizer = normalizers.Replace(" ", "▁")
    rust.decoder = decoders.Sequence(_bytes())
    return rust


def _read(path: Path, model: str) -> SentencePiece:
    file = SentencePiece.read(path)
    if file.model != model:
        raise ModelError(f"{path} holds a {file.model} model, and this family has {model}")
    return file


def _unigram(
    file: SentencePiece, added: Added, steps: Normalizers, scores: Scores | None = None
) -> Tokenizer:
    scores = file.scores if scores is None else scores
    unknown = added.name("unk")
    place = next((i for i, (text, _) in enumerate(scores) if text == unknown), None)
    rust = Tokenizer(models.Unigram(scores, place, byte_fallback=False))
    rust.add_tokens(file.added)
    rust.normalizer = normalizers.Sequence(steps)
    scheme = "always" if added.options.get("add_prefix_space", True) else "never"
    words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme=scheme)]
    rust.pre_tokenizer = pre_tokenizers.Sequence(words)
    rust.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return rust


def _bpe(path: Path, added: Added) -> Tokenizer:
    file = _read(path, "bpe")
    vocabulary = {piece.text: id for id, piece in enumerate(file.pieces)}
    unknown = added.name("unk")
    rust = Tokenizer(
        models.BPE(vocabulary, file.merges(), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    rust.add_tokens(file.added)
    return rust


def _charsmap(file: SentencePiece) -> Normalizers:
    return [normalizers.Precompiled(file.charsmap)] if file.charsmap else []


def _plain(accents: bool, lower: bool) -> Normalizers:
    quotes = [normalizers.Replace(pair, '"') for pair in ("``", "''")]
    bare = [] if accents else [normalizers.NFKD(), normalizers.StripAccents()]
    return [*quotes, *bare, *([normalizers.Lowercase()] if lower else [])]


def _bytes() -> list[decoders.Decoder]:
    return [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
