"""Vectors of the reference sentences, to calibrate int8 and to compare precisions."""

from collections.abc import Sequence

from models.encoder.batch import Batch
from models.encoder.head import Head
from models.errors import ModelError
from models.precision.sentences import SENTENCES
from models.tokenizer.tokenizer import Tokenizer
from models.torch_backend.encoder import Encoder
from models.vectors import Floats, normalize


class ReferenceSentences:
    """Embeds the reference sentences with a model's tokenizer, pooling and head."""

    def __init__(
        self, tokenizer: Tokenizer, vocab_size: int, pooling: Sequence[str], head: Head
    ) -> None:
        """Tokenize the sentences, without those whose token ids exceed the token table.

        Raises ModelError if no sentence remains.
        """
        rows = [row.ids for row in tokenizer.encode(list(SENTENCES))]
        rows = [ids for ids in rows if ids and max(ids) < vocab_size]
        if not rows:
            raise ModelError(
                f"the tokenizer's ids are not those of a table of {vocab_size} vectors"
            )
        self._batch = Batch.of(rows)
        self._pooling, self._head = pooling, head

    def __call__(self, encoder: Encoder) -> Floats:
        """Return the unit vectors of the sentences, as an encoder computes them: (B, dim)."""
        return normalize(self._head(encoder.vectors(self._batch, self._pooling)))
