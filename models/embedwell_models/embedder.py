"""Facade of this package: a loaded model that embeds texts, pairs and images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedwell_models.assembly.loaded_model import LoadedModel
from embedwell_models.assembly.token_id_embedder import TokenIdEmbedder
from embedwell_models.encoder.batch import Rows
from embedwell_models.encoder.token_budget import batches_of_similar_length
from embedwell_models.errors import EmptyTextError
from embedwell_models.folder import Folder
from embedwell_models.hub.sources import DEFAULT, resolve
from embedwell_models.images.decoding import MAX_PIXELS
from embedwell_models.precision.trials import Trial
from embedwell_models.sentence_transformers.multi_vector import TextRole
from embedwell_models.sentence_transformers.pooling import AUTO
from embedwell_models.tokenizer.cooperative import run_to_completion
from embedwell_models.tokenizer.formatted_pairs import pair_encoder
from embedwell_models.tokenizer.pairs import Pair
from embedwell_models.tokenizer.truncation import TruncatedIds
from embedwell_models.vectors import Floats, normalize


class Embedder(TokenIdEmbedder):
    """A model on a device in a precision, which computes vectors of texts, pairs and images."""

    @classmethod
    def load(  # noqa: PLR0913 - all but one are keyword-only
        cls,
        model: str | Path = DEFAULT,
        *,
        device: str = "auto",
        dtype: str = "auto",
        isa: str = "auto",
        pooling: str = AUTO,
        rerank_format: str = AUTO,
        adapter: str = AUTO,
        trials: Sequence[Trial] | None = None,
        revision: str | None = None,
        cache: Path | None = None,
    ) -> "Embedder":
        """Load a model from a folder, the cache, or the network.

        device: auto, cpu, cuda or cuda:N. dtype: auto, float32, bfloat16, float16 (GPU) or int8
        (CPU); auto is the fastest precision that is close to float32 on the reference sentences.
        pooling: one of MODES in `sentence_transformers.pooling`; auto is the pooling of the model's
        files. rerank_format: format in which a reranker reads pairs, one of CHOICES in
        `sentence_transformers.rerank_formats`; auto is the format of the model's files.
        adapter: the task of a model with adapters, or none.
        isa: the highest instruction set of the compiled kernels, one of CAPS in
        `cpu_backend.library`: auto is the best of this CPU, none uses torch only.
        trials: trials of an earlier load in this dtype, which are not repeated. Raises ModelError
        if the model, device or precision is not available.
        """
        path = resolve(str(model), revision=revision, cache=cache)
        folder = Folder.read(path, pooling, rerank_format, adapter)
        return cls(LoadedModel.load(folder, device, dtype, isa, trials))

    def tokenize(self, texts: Sequence[str], *, prompt: str | None = None) -> list[list[int]]:
        """Return the token ids of each text after a prompt, for `encode` and `hidden`.

        prompt: by default the model's. The ids are truncated to max_length.
        """
        return [row.ids for row in self._encode_texts(texts, prompt)]

    def embed(
        self, texts: Sequence[str], *, prompt: str | None = None, budget: int = 2048
    ) -> Floats:
        """Embed any number of texts, `budget` tokens at a time: (B, dim).

        prompt: text before each text, or the instruction of a model that reads texts in a chat
        template; by default the model's own. Raises EmptyTextError, PromptTooLongError and
        UnsplittableTextError.
        """
        prompt = self.sentence.default_prompt if prompt is None else prompt
        side = self.tokenizer.side
        prompt_token_count = self.sentence.prompt_token_count(prompt, self.tokenizer)
        limit = self.tokenizer.count_limit(prompt_token_count, side)
        rows = self._encode_texts(texts, prompt, limit)
        for index, row in enumerate(rows):
            if len(row.ids) < self.config.min_tokens:
                raise EmptyTextError(index)
        remaining = [row.remaining(prompt_token_count, side) for row in rows]
        return self._encode_all([row.ids for row in rows], remaining, budget)

    def embed_tokens(
        self, texts: Sequence[str], role: TextRole = "document", *, budget: int = 2048
    ) -> list[Floats]:
        """Embed the tokens of queries or documents, for `vectors.maxsim`: B arrays (n, dim).

        n: the number of tokens that have a vector. Raises UnsplittableTextError, and ValueError for
        a model without vectors of tokens.
        """
        if (tokens := self.multi_vector) is None:
            raise ValueError("the model has one vector for each text")
        prompt = self.sentence.prompts.get(role, "")
        ids = self.tokenizer.encode([prompt + text for text in texts])
        limit = tokens.max_length(role)
        cut = [self.tokenizer.truncate(row.ids, max_length=limit).ids for row in ids]
        rows = [tokens.expand(row, role) for row in cut]
        vectors: dict[int, Floats] = {}
        for batch in batches_of_similar_length([*map(len, rows)], budget):
            vectors |= zip(batch, self.encode_tokens([rows[i] for i in batch]), strict=True)
        return [
            tokens.select(vectors[i], np.array(row, dtype=np.int32), role)[0]
            for i, row in enumerate(rows)
        ]

    def score(
        self, pairs: Sequence[Pair], *, instruction: str | None = None, budget: int = 2048
    ) -> Floats:
        """Compute the logits of pairs of texts, `budget` tokens at a time: (B, labels).

        instruction: instruction for a language model that reranks; by default its own.

        Raises ValueError for a model without a classifier, and for an instruction to a model that
        takes none.
        """
        if self.classifier is None:
            raise ValueError("the model embeds texts and cannot score pairs; use a reranker")
        tokenizer = pair_encoder(self.tokenizer, self.config, self.classifier.pair_format)
        if instruction is not None:
            tokenizer = tokenizer.with_instruction(instruction)
        rows = [row.ids for row in run_to_completion(tokenizer.encode(pairs))]
        return self._encode_all(rows, [0] * len(rows), budget)

    def embed_images(self, images: Sequence[bytes], *, max_pixels: int = MAX_PIXELS) -> Floats:
        """Embed images that are encoded as PNG, JPEG, WebP or GIF: (B, dim).

        max_pixels: maximum pixels of an image. Raises ImageError, and ValueError for a model
        without an image encoder.
        """
        if self._preprocessing is None:
            raise ValueError("the model has no image encoder")
        pixels = [self._preprocessing.pixels(image, max_pixels) for image in images]
        vectors = self.encode_images(pixels)
        return normalize(vectors) if self.sentence.normalize else vectors

    def _encode_texts(
        self, texts: Sequence[str], prompt: str | None, count_limit: float = 0
    ) -> list[TruncatedIds]:
        sentence, tokenizer = self.sentence, self.tokenizer
        before = sentence.before_text(sentence.default_prompt if prompt is None else prompt)
        rows = tokenizer.encode([before + text for text in texts], count_limit=count_limit)
        if sentence.text_format is None:
            return rows
        start = run_to_completion(tokenizer.ids_without_special(before))
        return [tokenizer.with_start(row, start, tokenizer.side) for row in rows]

    def _encode_all(self, rows: Rows, prompt_token_counts: Sequence[int], budget: int) -> Floats:
        vectors = np.empty((len(rows), self.dim), dtype=np.float32)
        for batch in batches_of_similar_length([*map(len, rows)], budget):
            vectors[batch] = self.encode(
                [rows[i] for i in batch],
                prompt_token_counts=[prompt_token_counts[i] for i in batch],
            )
        return vectors
