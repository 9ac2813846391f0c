"""SentencePiece files, converted, and SentencePiece on the original file."""

from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer as Rust

from embedwell_classic.convert import tokenizer


def sentencepiece_file(folder: Path) -> Any:
    (path,) = folder.glob("*.model")
    return SentencePieceProcessor(model_file=str(path))


def converted(source: Path, target: Path) -> Rust:
    target.mkdir()
    (target / "config.json").write_bytes((source / "config.json").read_bytes())
    tokenizer.convert(source, target)
    return Rust.from_file(str(target / "tokenizer.json"))


def tokens(rust: Rust, text: str) -> list[str]:
    found: list[str] = rust.encode(text, add_special_tokens=False).tokens
    return found
