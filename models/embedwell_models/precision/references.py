"""Vectors of reference sentences, by which precisions are calibrated and compared."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.vector_modules import VectorHead
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats, normalize

if TYPE_CHECKING:  # imported where precisions are compared
    from embedwell_models.tokenizer.tokenizer import Tokenizer

# Only the empty text is both calibrated and compared with, because there is no other like it.
SENTENCES = (
    "how to reset a forgotten password",
    "cheap flights to lisbon in march",
    "What is the boiling point of water at high altitude?",
    "The cat slept on the warm windowsill all afternoon.",
    "Invoices are due within thirty days of receipt.",
    "def area(radius: float) -> float:\n    return math.pi * radius ** 2",
    "SELECT city, AVG(price) FROM flats GROUP BY city ORDER BY 2 DESC;",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "Mix the flour, sugar and butter, then fold in two beaten eggs and bake for forty minutes.",
    "The committee postponed its vote after the auditors questioned last year's accounts.",
    "A mutation in this gene impairs the transport of chloride ions across the cell membrane.",
    "Der Zug nach Hamburg fährt heute von Gleis sieben ab.",
    "Le musée est fermé le mardi, sauf pendant les vacances scolaires.",
    "La biblioteca abre a las nueve y cierra a las ocho de la tarde.",
    "https://www.example.com/products/4711?colour=blue&size=m",
    "3.5 kg of apples at 2.20 each, plus 7 % tax: 8.24 in all",
    "WARNING!!! Do NOT open this valve while the pump is running.",
    "thx, see u tmrw :)",
    "Although the bridge had been inspected in spring, engineers found new cracks in the northern "
    "pylon, closed two lanes, and asked the city for money to replace the bearings before winter.",
    "Photosynthesis turns carbon dioxide and water into sugar and oxygen. Light is caught by "
    "chlorophyll in the leaves; its energy splits water molecules, and the freed electrons drive "
    "the making of the compounds that the plant later spends on growth.",
    "The tenant shall keep the premises in good repair, shall not sublet any part of them without "
    "the landlord's written consent, and shall allow the landlord to enter at reasonable hours, "
    "after a day's notice, to inspect the condition of the property.",
    "In the second half the visitors pressed higher up the pitch and won the ball back quickly. "
    "Their captain hit the post from twenty metres, and a minute later the youngest player on "
    "the field turned in a low cross to make it two to one. The home side pushed for an equaliser "
    "until the end, but their keeper's late save only kept the score from growing.",
    "Interest rates rose again on Thursday, the sixth increase in a year. The central bank said "
    "that prices were still climbing faster than it would like, above all for food and rent, and "
    "that it expected unemployment to go up slightly before inflation fell back to its target. "
    "Shares of lenders gained, while builders and retailers lost ground in heavy trading.",
    "To install the software, download the archive for your system, check its signature, and "
    "unpack it into an empty folder. Run the configuration script first: it asks where to keep "
    "data and which port to listen on, and writes both to a file that you may edit later. Then "
    "start the server and open the status page in a browser. If the page does not load, look at "
    "the last lines of the log, which name the setting that is missing or wrong.",
)
"""Texts that int8 is calibrated with, and the empty text."""

JUDGED_SENTENCES = (
    "symptoms of vitamin d deficiency",
    "Who painted the ceiling of the chapel, and when?",
    "return policy opened item without receipt",
    "She left the keys under the mat, but nobody thought to look there.",
    "for i, row in enumerate(rows):\n    total[row.key] += row.price * i  # weighted",
    "ERROR 1045 (28000): Access denied for user 'root'@'localhost'",
    "Os preços da gasolina subiram outra vez nesta semana.",
    "Kun lumi sulaa, joki tulvii pelloille asti.",
    "mailto:jane.doe+news@mail.example.org?subject=Re%3A%20hello",
    "x^2 + 3x - 4 = 0, so x = 1 or x = -4",
    "Enzymes lower the energy that a reaction needs to begin, and are not used up by it: one "
    "molecule may turn over thousands of others in a second.",
    "The lease ended in May. By then the roof leaked, two windows were broken and the owner had "
    "moved abroad, so the firm stored its machines in a barn by the canal until a court could hear "
    "the case; nine months later most of them had rusted beyond repair.",
)
"""Ordinary texts that precisions are compared on, besides the odd ones."""

ODD_TEXTS = (
    "",
    "a",
    "Q",
    "7",
    "!",
    "?",
    "...",
    "#",
    "ok",
    "no",
    "$ 19.99",
    "2024-02-29",
    "{}();[]<>/\\|~^+=*%&",
    "😀 👍🏽 🇧🇷",
    "Где находится вокзал?",
    "明日は雨です。",
    "أين المكتبة؟",
    "-" * 48,
    "word " * 32,
)
"""Short, empty and monotonous texts, whose activations differ from those of prose."""

Vectors = Callable[[Encoder, Batch], Floats]
"""Function that computes the unit vectors of sequences with an encoder: (B, dim)."""


class ReferenceSentenceEmbedder:
    """Embedder of the reference texts with a model's tokenizer.

    The first use tokenizes them, without those that have token ids outside the token table. It
    raises ModelError if no sentence remains.
    """

    def __init__(
        self, tokenizer: Callable[[], "Tokenizer"], vocab_size: int, vectors: Vectors
    ) -> None:
        """tokenizer: returns the tokenizer, which a load without trials does not need."""
        self._tokenizer, self._vocab_size, self._vectors = tokenizer, vocab_size, vectors

    def __call__(self, encoder: Encoder) -> Floats:
        """Return the unit vectors that an encoder computes for the judged texts: (B, dim)."""
        return self._vectors(encoder, self._judged)

    def check(self, encoder: Encoder) -> None:
        """Raise ModelError if an encoder computes no finite vector for a short sentence.

        Weights that were damaged may be finite while their products are not. Raises ModelError also
        if no sentence has token ids of the table alone.
        """
        with np.errstate(all="ignore"):
            vectors = self._vectors(encoder, Batch.of(self._rows[:1]))
        if not np.isfinite(vectors).all():
            raise ModelError(
                "the vector of a sentence is not finite: the weights or config.json are damaged; "
                "fetch the model again"
            )

    def calibrate(self, encoder: Encoder) -> None:
        """Run ordinary sentences and an empty text through an encoder that observes its inputs.

        The other odd texts stay out: their outliers would take resolution away from ordinary texts.
        The judged texts are others, because int8 is nearest to float32 on the calibration texts.
        """
        self._vectors(encoder, self._observed)

    @cached_property
    def _observed(self) -> Batch:
        return Batch.of(self._rows + self._encode([""]))

    @cached_property
    def _judged(self) -> Batch:
        # Of a small table, only words of the sentences may be left.
        return Batch.of(self._encode((*JUDGED_SENTENCES, *ODD_TEXTS)) or self._rows)

    @cached_property
    def _rows(self) -> list[Sequence[int]]:
        if rows := self._encode(SENTENCES):
            return rows
        raise ModelError(f"the tokenizer's ids do not fit a table of {self._vocab_size} vectors")

    def _encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        rows = [row.ids for row in self._tokenizer().encode(texts)]
        return [ids for ids in rows if ids and max(ids) < self._vocab_size]


def pooled_vectors_function(head: VectorHead, pooling: Sequence[str]) -> Vectors:
    """Return a function that computes the vectors of texts. head: modules after the pooling."""
    return lambda encoder, batch: normalize(head(encoder.vectors(batch, pooling)))


def token_vectors_function(head: VectorHead, num_layers: int) -> Vectors:
    """Return a function that concatenates the vectors of a text's tokens to one vector.

    The cosine of two such vectors is the mean of the cosines of their tokens.
    """

    def compute(encoder: Encoder, batch: Batch) -> Floats:
        rows = normalize(head(encoder.states(batch, num_layers)))
        shape = len(batch.lengths), int(batch.lengths.max()), rows.shape[1]
        vectors = np.zeros(shape, dtype=np.float32)
        vectors[np.arange(shape[1]) < batch.lengths[:, None]] = rows
        return normalize(vectors.reshape(len(vectors), -1))

    return compute
