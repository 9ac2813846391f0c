"""An input of a reranker or classifier: a pair of texts, or one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts that are read together, or one alone; `len` counts their characters."""

    first: str
    second: str | None = None

    def __len__(self) -> int:
        return len(self.first) + len(self.second or "")
