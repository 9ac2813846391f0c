"""A tokenizer whose Rust code panics."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from tests.models.tiny import write_tokenizer


def panicking(folder: Path, token: str) -> Path:
    """A tokenizer that panics when this token is before two spaces: both claim them."""
    write_tokenizer(folder)
    path = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(path)
    rust.add_tokens([AddedToken(token, rstrip=True, normalized=False)])
    rust.add_tokens([AddedToken(" ", lstrip=True, normalized=False)])
    rust.save(path)
    return folder
