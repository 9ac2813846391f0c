"""The facade of this package: a loaded model that embeds texts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.assembly.loaded_model import LoadedModel
from models.assembly.output_heads import choose_output_heads
from models.encoder.batch import Batch, Rows, truncate_after
from models.encoder.token_budget import batches_of_similar_length
from models.errors import EmptyTextError
from models.folder import Folder
from models.hub.sources import DEFAULT, resolve
from models.images.decoding import MAX_PIXELS
from models.images.preprocessing import Pixels
from models.outputs.names import MULTI
from models.outputs.text_outputs import TextOutputs
from models.precision.trials import Trial
from models.sentence_transformers.multi_vector import TextRole
from models.sentence_transformers.pooling import AUTO
from models.tokenizer.cooperative import run_to_completion
from models.tokenizer.formatted_pairs import pair_encoder
from models.tokenizer.pairs import Pair
from models.tokenizer.truncation import TruncatedIds
from models.torch_backend.token_head import TokenHead
from models.vectors import Floats, normalize


class Embedder:
    """A model on a device, in a precision.

    fingerprint: identifies everything that decides the vectors, except rounding.

    output_names: what `outputs` can compute. classifier: of a model that reranks or classifies,
    whose vectors are logits; None otherwise. multi_vector: of a model with vectors of tokens; None
    otherwise.

    images: the image encoder, if the model has one, and None otherwise.

    Vectors do not depend on what they are batched with: to the bit on a CPU, to rounding on a GPU.
    """

    def __init__(self, model: LoadedModel) -> None:
        """model: see `load`."""
        folder, tokenizer = model.folder, model.tokenizer
        self.tokenizer, self.sentence, self.dim = tokenizer, folder.sentence, folder.dim
        self.classifier = folder.classifier
        self.multi_vector = folder.multi_vector_rules(tokenizer)
        self.config, self.device = model.embeddings.config, model.embeddings.device
        self.dtype, self.isa, self.trials = model.dtype, model.isa, model.trials
        self.fingerprint = f"{folder.fingerprint()}-{model.dtype}"
        self.output_names = folder.outputs
        self.images, self._preprocessing = model.images, folder.preprocessing
        self._embeddings, self._encoder, self._head = model.embeddings, model.encoder, model.head
        self._output_heads = choose_output_heads(model)

    @classmethod
    def load(  # noqa: PLR0913 - all but one by name
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

        device: auto, cpu, cuda or cuda:N. dtype: auto, float32, bfloat16, float16 (GPU) or
        int8 (CPU); auto is the fastest that is close to float32 on the reference sentences.
        pooling: one of MODES in models.sentence_transformers.pooling; auto is the one that the
        model's files name. rerank_format: how a reranker reads pairs, one of CHOICES in
        models.sentence_transformers.rerank_formats; auto is as the files say.
        adapter: the task of a model with adapters, or none.
        isa: the highest instruction set of the compiled kernels, one of CAPS in
        models.cpu_backend.library: auto is the best of this processor, none leaves all to torch.
        trials: those of an earlier load in this dtype, which are then not repeated.
        Raises ModelError if the model, device or precision is not available.
        """
        path = resolve(str(model), revision=revision, cache=cache)
        folder = Folder.read(path, pooling, rerank_format, adapter)
        return cls(LoadedModel.load(folder, device, dtype, isa, trials))

    @property
    def max_length(self) -> int:
        """Maximum tokens of a text that are read, special tokens included."""
        return self.sentence.max_length

    @property
    def max_concurrent_batches(self) -> int:
        """Number of forward passes that can run at once, each on a single thread."""
        return self._encoder.max_concurrent_batches

    @property
    def prefetch_depth(self) -> int:
        """Number of forward passes that other threads may start while one is computed."""
        return self._encoder.prefetch_depth

    def tokenize(self, texts: Sequence[str], *, prompt: str | None = None) -> list[list[int]]:
        """Return the token ids of each text after a prompt, as `encode` and `hidden` take them.

        prompt: by default the model's. The ids are truncated to max_length.
        """
        return [row.ids for row in self._encode_texts(texts, prompt)]

    def encode(
        self, ids: Rows, *, normalized: bool | None = None, prompt_token_counts: Sequence[int] = ()
    ) -> Floats:
        """Embed B sequences of token ids in one forward pass: -> (B, dim).

        normalized: divide by the Euclidean length; by default as the model's files say.
        prompt_token_counts: how many of each sequence's first tokens are left out of the pooling;
        by default none.

        Raises ValueError for an id or a length that the model does not have.
        """
        if isinstance(self._head, TokenHead):
            raise ValueError("the model has a vector for each token, and none for a text")
        batch = self._batch(self._padded(self._cut(ids)), prompt_token_counts)
        vectors = self._head(self._encoder.vectors(batch, self.sentence.pooling))
        normalized = self.sentence.normalize if normalized is None else normalized
        return normalize(vectors) if normalized else vectors

    def outputs(
        self, ids: Rows, names: Sequence[str], *, prompt_token_counts: Sequence[int] = ()
    ) -> list[TextOutputs]:
        """Compute outputs of B sequences of token ids in one forward pass.

        A dense vector is not normalized. names: see models.outputs.names. prompt_token_counts: as
        in `encode`.

        Raises ValueError for an output, an id or a length that the model does not have.
        """
        if unknown := {*names} - {*self.output_names}:
            raise ValueError(f"no outputs {sorted(unknown)}; the model has {self.output_names}")
        batch = self._batch(self._padded(self._cut(ids)), prompt_token_counts)
        return self._output_heads(batch, names)

    def encode_tokens(self, ids: Rows) -> list[Floats]:
        """Embed each token of B sequences in one forward pass: B times (length, dim).

        Normalized if the model's files say so.

        Raises ValueError for a model without vectors of tokens, and for an id or a length that it
        does not have.
        """
        if self.multi_vector is None:
            raise ValueError("the model has one vector for each text")
        outputs = self.outputs(ids, [MULTI])
        return [text.multi for text in outputs if text.multi is not None]

    def hidden(self, ids: Rows, layer: int | str | None = None) -> list[Floats]:
        """Return the hidden states of each of B sequences: B times (length, D).

        layer: how many layers to apply (all by default), or one of the input embeddings:
        'token', 'position' or 'segment'.

        Raises ValueError for an id, a length or a layer that the model does not have.
        """
        lengths, batch = [*map(len, ids)], self._batch(self._padded(ids))
        if isinstance(layer, str):
            states = self._embeddings.part(layer, batch)
        else:
            num_layers = self.config.num_layers if layer is None else layer
            if not 0 <= num_layers <= self.config.num_layers:
                raise ValueError(f"layers are 0 to {self.config.num_layers}")
            states = self._encoder.states(batch, num_layers)
        return [row[:n] for row, n in zip(batch.split(states), lengths, strict=True)]

    def embed(
        self, texts: Sequence[str], *, prompt: str | None = None, budget: int = 2048
    ) -> Floats:
        """Embed any number of texts, `budget` tokens at a time: -> (B, dim).

        prompt: text before each of them, or the instruction of a model that reads texts in a chat
        template; by default the model's.
        Raises EmptyTextError, PromptTooLongError and UnsplittableTextError.
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
        """Embed the tokens of queries or documents, for `models.vectors.maxsim`: B times (n, dim).

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
        """Compute the logits of pairs of texts, `budget` tokens at a time: -> (B, labels).

        instruction: to a language model that reranks; by default its own.

        Raises ValueError for a model without a classifier, or one that takes no instruction.
        """
        if self.classifier is None:
            raise ValueError("the model embeds texts, and has no scores of pairs")
        tokenizer = pair_encoder(self.tokenizer, self.config, self.classifier.pair_format)
        if instruction is not None:
            tokenizer = tokenizer.with_instruction(instruction)
        rows = [row.ids for row in run_to_completion(tokenizer.encode(pairs))]
        return self._encode_all(rows, [0] * len(rows), budget)

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """Embed the pixels of images, (side, side, 3), in one pass: -> (B, dim), not normalized.

        Raises ValueError for a model without an image encoder.
        """
        if self.images is None:
            raise ValueError("the model has no image encoder")
        return self.images.encode(images)

    def embed_images(self, images: Sequence[bytes], *, max_pixels: int = MAX_PIXELS) -> Floats:
        """Embed encoded images, as PNG, JPEG, WebP or GIF: -> (B, dim).

        max_pixels: of an image. Raises ImageError, and ValueError for a model without an image
        encoder.
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

    def warm(self) -> None:
        """Prepare the most frequent batch sizes, so that no request waits for that."""
        self._encoder.warm()
        self.try_out([[0]] * 4)  # every vocabulary has the id 0
        if self.images is not None:
            side = self.images.spec.image_size
            self.images.encode([np.zeros((side, side, 3), dtype=np.uint8)])

    def try_out(self, ids: Rows) -> None:
        """Compute the vectors of sequences of token ids as for a request, and drop them."""
        _ = self.encode_tokens(ids) if isinstance(self._head, TokenHead) else self.encode(ids)

    def _cut(self, ids: Rows) -> Rows:
        """Drop what a model of images reads after the token of a text's end."""
        end = self.sentence.end
        return ids if end is None else [truncate_after(row, end) for row in ids]

    def _padded(self, ids: Rows) -> Rows:
        if not self.sentence.padded:
            return ids
        pad = self.tokenizer.special_id("pad")
        return [[*row, *[pad or 0] * (self.max_length - len(row))] for row in ids]

    def _batch(self, ids: Rows, prompt_token_counts: Sequence[int] = ()) -> Batch:
        batch, config = Batch.of(ids, prompt_token_counts), self.config
        segments = 2 if config.two_segments or config.subwords else 1
        batch.check_bounds(config.vocab_size * segments, config.max_tokens, config.min_tokens)
        id = self.multi_vector.unattended_id if self.multi_vector else None
        return batch if id is None else batch.without_attention_to_trailing(id)
