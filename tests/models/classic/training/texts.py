"""Texts about two topics, in which the words of a class are used alike."""

import random
from pathlib import Path

TOPICS = [
    (["cat", "dog", "horse"], ["eats", "sees"], ["grass", "hay"], ["meadow", "stable"]),
    (["ship", "boat", "ferry"], ["carries", "leaves"], ["cargo", "sand"], ["harbour", "coast"]),
]


def texts(count: int, seed: int = 0) -> list[str]:
    """Return `count` sentences such as "The cat eats the hay near the stable."."""
    chosen = random.Random(seed)
    return [_sentence(chosen, chosen.randrange(2)) for _ in range(count)]


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return `count` pairs of sentences about one topic."""
    chosen = random.Random(seed)
    topics = [chosen.randrange(2) for _ in range(count)]
    return [(_sentence(chosen, topic), _sentence(chosen, topic)) for topic in topics]


def write_texts(path: Path, count: int) -> Path:
    """Write sentences to a file, one in each line."""
    path.write_text("\n".join(texts(count)), encoding="utf-8")
    return path


def _sentence(chosen: random.Random, topic: int) -> str:
    who, does, what, where = (chosen.choice(words) for words in TOPICS[topic])
    return f"The {who} {does} the {what} near the {where}."
