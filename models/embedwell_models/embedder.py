"""Facade of this package: a loaded model that embeds texts, pairs and images."""

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from embedwell_models import vision
from embedwell_models.encoder.batch import batches_of_similar_length
from embedwell_models.encoder.token_pooling import pool_tokens
from embedwell_models.errors import InputError
from embedwell_models.loading.input_checks import check_pairs, check_text, check_texts
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.outputs.names import DENSE, LISTWISE
from embedwell_models.read.inputs import (
    InputOptions,
    InputRow,
    Overflow,
    merge_by_average,
    split_windows,
)
from embedwell_models.read.spans import Span, SpanPooling, check_spans, pool_spans, tokens_below
from embedwell_models.read.text_reader import TextReader
from embedwell_models.tokenizer.pairs import Pair, pair_encoder
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.vectors import Floats, listwise_scores, truncate_and_normalize
from embedwell_models.vision import MAX_PIXELS, Pixels

if TYPE_CHECKING:
    from embedwell_models.loading.loaded_model import LoadedModel
    from embedwell_models.model_files.multi_vector import TextRole


class Embedder(TokenIdEmbedder):
    """A model on a device in a precision, which computes vectors of texts, pairs and images.

    reader: reads texts as rows of token ids.
    """

    def __init__(self, model: "LoadedModel", fingerprint: str | None = None) -> None:
        """model, fingerprint: see TokenIdEmbedder. Raises ModelError for a wrong tokenizer."""
        if isinstance(model, str):
            raise TypeError(f"{model!r} is not a loaded model: use Embedder.load({model!r})")
        super().__init__(model, fingerprint)
        self._load_tokenizer = model.load_tokenizer
        self.reader = TextReader(  # its errors are those of loading
            self.tokenizer,
            self.recipe,
            vocabulary_rows=self.config.vocab_size,
            min_tokens=self.config.min_tokens,
        )

    def __repr__(self) -> str:
        """Name the family of the model, its outputs, precision and device."""
        outputs = ", ".join(self.output_names) or "logits"
        width = f" of {self.dim} dimensions" if DENSE in self.output_names else ""
        return f"<Embedder: {self.config.family}, {outputs}{width}, {self.dtype} on {self.device}>"

    @overload
    def tokenize(  # type: ignore[overload-overlap]
        self, texts: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> list[int]: ...
    @overload
    def tokenize(
        self, texts: Sequence[str], *, prompt: str | None = None, prompt_name: str | None = None
    ) -> list[list[int]]: ...
    def tokenize(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> list[int] | list[list[int]]:
        """Return the token ids of each text after a prompt, for `encode` and `hidden`.

        The ids are truncated to max_length. One str has one list. For the prompt and the errors of
        a text see `embed`.
        """
        if isinstance(texts, str):
            return self.tokenize([texts], prompt=prompt, prompt_name=prompt_name)[0]
        return self.reader.ids(check_texts(texts), _options(prompt, prompt_name))

    def embed(  # noqa: PLR0913 - all but one are keyword-only
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        dimensions: int | None = None,
        on_overflow: Overflow | None = None,
        late_chunking: bool = False,
        budget: int = 2048,
        show_progress_bar: bool = False,
    ) -> Floats:
        """Embed any number of texts, `budget` tokens at a time: (B, dim), or (dim,) for one str.

        prompt: text before each text, or the instruction of a model that reads texts in a chat
        template; by default the model's own. prompt_name: name of a prompt of the model instead.
        dimensions: number of first dimensions to keep, one of `allowed_dimensions`; the result is
        normalised if the model normalises. on_overflow: for a text of more than max_length tokens,
        error, start or end (where it is cut off) or mean (of the vectors of its windows); by
        default, the side of the model's files, usually the end. late_chunking: the texts are
        consecutive chunks of one text, each of which is embedded with the whole text as context
        (arXiv 2409.04701). show_progress_bar: on standard error.

        Raises TypeError for anything but texts, InputError, which has the index of a text,
        DimensionsError, and ValueError for a lone surrogate and a model without dense vectors of
        texts.
        """
        self._require_dense()
        self.allowed_dimensions.check(dimensions)
        single = isinstance(texts, str)
        checked = check_texts([texts] if single else texts)
        options = _options(prompt, prompt_name, on_overflow)
        if late_chunking:
            vectors = self._embed_chunks(checked, options)
            vectors = truncate_and_normalize(vectors, dimensions, self.recipe.normalize)
            return vectors[0] if single else vectors
        rows, shown = self.reader.rows(checked, options), show_progress_bar
        if not options.windows:
            vectors = self._encode_all(rows, budget, dimensions, self.recipe.normalize, shown)
            return vectors[0] if single else vectors
        of_windows = self._encode_all(split_windows(rows), budget, None, False, shown)
        means = merge_by_average(rows, of_windows) if rows else of_windows
        vectors = truncate_and_normalize(means, dimensions, self.recipe.normalize)
        return vectors[0] if single else vectors

    def embed_spans(  # noqa: PLR0913 - all but two are keyword-only
        self,
        texts: Sequence[str],
        spans: Sequence[Sequence[Span]],
        *,
        pooling: SpanPooling = "mean",
        prompt: str | None = None,
        prompt_name: str | None = None,
        on_overflow: Overflow | None = None,
        budget: int = 2048,
    ) -> list[Floats]:
        """Embed parts of texts, after the model has read each whole text: B arrays (spans, D).

        spans: for each text, the start and stop of parts in characters. pooling: how the vectors of
        the tokens that overlap a part become one: mean or max. The vectors are not normalised.
        prompt, prompt_name, on_overflow: see `embed`; mean is not possible.

        Raises TypeError for anything but texts, and InputError, also for a part without tokens.
        """
        checked, options = check_texts(texts), _options(prompt, prompt_name, on_overflow)
        check_spans(spans, checked)
        options.check_no_windows()
        read = self.reader.rows_with_tokens(checked, options)
        states, pooled = self._hidden([row for row, _ in read], budget), list[Floats]()
        for index, (_, tokens) in enumerate(read):
            each = tokens_below(self.config.num_vectors, tokens, states[index])
            pooled.append(pool_spans(each[1], each[0], spans[index], pooling, index))
        return pooled

    @overload
    def embed_tokens(  # type: ignore[overload-overlap]
        self, texts: str, role: "TextRole" = "document", *, budget: int = 2048, pool_factor: int = 1
    ) -> Floats: ...
    @overload
    def embed_tokens(
        self,
        texts: Sequence[str],
        role: "TextRole" = "document",
        *,
        budget: int = 2048,
        pool_factor: int = 1,
    ) -> list[Floats]: ...
    def embed_tokens(
        self,
        texts: str | Sequence[str],
        role: "TextRole" = "document",
        *,
        budget: int = 2048,
        pool_factor: int = 1,
    ) -> Floats | list[Floats]:
        """Embed the tokens of queries or documents, for `vectors.maxsim`: B arrays (n, dim).

        n: the number of tokens that have a vector; of a document, about a `pool_factor`-th of it,
        see `token_pooling`. One str has one array. Raises UnsplittableTextError, InputError for a
        wrong factor, ValueError for a model without vectors of tokens, and the errors of a text as
        `embed` does.
        """
        if isinstance(texts, str):
            return self.embed_tokens([texts], role, budget=budget, pool_factor=pool_factor)[0]
        texts = check_texts(texts)
        if (tokens := self.multi_vector) is None:
            raise ValueError(f"the model has no vectors of tokens; use {self.right_call()}")
        options = InputOptions(
            prompt=self.recipe.prompts.get(role, ""), max_length=tokens.max_length(role)
        )
        # An empty text has tokens after `expand`.
        limits = {"vocabulary_rows": self.config.vocab_size, "min_tokens": 0}
        reader = TextReader(self.tokenizer, self.recipe, **limits)
        cut = reader.rows(texts, options)
        rows = [tokens.expand(row.ids.tolist(), role) for row in cut]
        vectors: dict[int, Floats] = {}
        for batch in batches_of_similar_length([*map(len, rows)], budget):
            vectors |= zip(batch, self.encode_tokens([rows[i] for i in batch]), strict=True)
        selected = (
            tokens.select(vectors[i], np.array(row, dtype=np.int32), role)[0]
            for i, row in enumerate(rows)
        )
        factor = 1 if role == "query" else pool_factor
        return [pool_tokens(each, factor) for each in selected]

    def score(
        self,
        pairs: Pair | Sequence[Pair],
        *,
        instruction: str | None = None,
        budget: int = 2048,
        show_progress_bar: bool = False,
    ) -> Floats:
        """Compute the logits of pairs of texts, `budget` tokens at a time: (B, labels).

        One tuple of two texts has one row: (labels,). instruction: instruction for a language model
        that reranks; by default its own. show_progress_bar: on standard error.

        Raises TypeError for anything but pairs, ValueError for a model without a classifier, for an
        instruction to a model that takes none, and for a lone surrogate.
        """
        if self.classifier is None or self.classifier.listwise:
            does = "embeds texts" if self.classifier is None else "ranks lists"
            raise ValueError(
                f"the model {does} and cannot score pairs; use {self.right_call()}, or load "
                "a reranker of pairs"
            )
        single = isinstance(pairs, tuple) and len(pairs) == 2 and isinstance(pairs[0], str)
        checked = check_pairs([pairs] if single else pairs)
        tokenizer = pair_encoder(self.tokenizer, self.config, self.classifier.pair_format)
        if instruction is not None:
            tokenizer = tokenizer.with_instruction(instruction)
        encoded = run_to_completion(tokenizer.encode(checked))
        rows = [InputRow(np.array(row.ids, dtype=np.int32), row.dropped) for row in encoded]
        normalize = self.recipe.normalize
        logits = self._encode_all(rows, budget, None, normalize, show_progress_bar)
        return logits[0] if single else logits

    def rank(
        self, query: str, documents: Sequence[str], *, instruction: str | None = None
    ) -> Floats:
        """Compute the cosine of each document with a query, for a listwise reranker: (B,).

        The model reads the documents together, so each changes the scores of the others.
        instruction: says what makes a document relevant.

        Raises TypeError for anything but texts, UnsplittableTextError, and ValueError for another
        kind of model, for no documents and for a lone surrogate.
        """
        if self.classifier is None or self.classifier.listwise is None:
            raise ValueError(f"the model ranks no lists; use {self.right_call()}")
        check_text(query, "the query")
        if not (checked := check_texts(documents)):
            raise ValueError("give at least one document")
        begin = self.classifier.listwise.tokenizer(self.tokenizer).begin(query, instruction)
        blocks = run_to_completion(begin)
        for document in checked:
            run_to_completion(blocks.add(document))
        run_to_completion(blocks.finish())
        outputs = [self.outputs([ids], [LISTWISE])[0].multi for ids in blocks.ids]
        return listwise_scores([vectors for vectors in outputs if vectors is not None])

    def embed_images(
        self, images: bytes | Sequence[bytes], *, max_pixels: int = MAX_PIXELS
    ) -> Floats:
        """Embed images that are encoded as PNG, JPEG, WebP or GIF: (B, dim), or (dim,) for bytes.

        max_pixels: maximum pixels of an image. Raises ImageError, TypeError for anything but bytes,
        and ValueError for a model without an image encoder.
        """
        vectors: Floats = _image_call("embed_images")(self, images, max_pixels)
        return vectors

    def embed_pages(self, images: Sequence[bytes], *, max_pixels: int = MAX_PIXELS) -> list[Floats]:
        """Embed the tokens of images of pages, for `vectors.maxsim`: B arrays (n, dim).

        images, max_pixels: see `embed_images`. The model's text after an image is cut to
        max_length. Raises ImageError, TypeError for anything but bytes, ImageTokensError for an
        image of more tokens than max_length, and ValueError for a model without vectors of an
        image's tokens.
        """
        vectors: list[Floats] = _image_call("embed_pages")(self, images, max_pixels)
        return vectors

    def embed_contents(
        self,
        contents: Sequence[Sequence[str | bytes | Pixels]],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> Floats:
        """Embed inputs of texts and encoded images in any order: (B, dim).

        contents: the parts of each input; a str is a text, bytes are an image, and an array is the
        pixels of one, by `patches.pixels`. prompt, prompt_name: see `embed`. max_pixels: maximum
        pixels of an image. A text after the images is cut to max_length.

        Raises ImageError, TypeError for a part that is neither, the errors of a text as `embed`
        does, ImageTokensError for images that do not fit into max_length, and ValueError for a
        model that does not read images as tokens of a text.
        """
        options = _options(prompt, prompt_name)
        vectors: Floats = _image_call("embed_contents")(self, contents, options, max_pixels)
        return vectors

    def _require_dense(self) -> None:
        """Raise ValueError for a model without one vector for each text."""
        if DENSE not in self.output_names:
            raise ValueError(
                f"the model has no dense vectors of texts; use {self.right_call()}, or load "
                "another model"
            )

    def right_call(self) -> str:
        """Return the call for which the model is made."""
        if self.classifier is not None:
            if self.classifier.listwise:
                return "rank(query, documents)"
            return (
                "score([(query, document)])" if self.classifier.reranks else "score([(text, None)])"
            )
        if DENSE in self.output_names:
            return "embed(texts)"
        if self.multi_vector is not None:
            return "embed_tokens(texts)"
        return f"outputs(tokenize(texts), {[*self.output_names]})"

    def _embed_chunks(self, chunks: Sequence[str], options: InputOptions) -> Floats:
        """Return the vectors of consecutive chunks of a text, not normalised: (B, D)."""
        if not self.recipe.has_late_chunking:
            raise InputError(
                "late_chunking needs a model with mean pooling alone; use embed_spans instead",
                code="not_offered",
                param="late_chunking",
            )
        document = self.reader.chunks(chunks, options)
        [states] = self.hidden([document.row.ids])
        vectors = list[Floats]()
        for vector in document.pool(states, "mean"):
            if isinstance(vector, InputError):
                raise vector
            vectors.append(vector)
        return np.stack(vectors)

    def _hidden(self, rows: Sequence[InputRow], budget: int) -> list[Floats]:
        """Return the hidden states of each row after all layers: B arrays (length, D)."""
        states: dict[int, Floats] = {}
        for batch in batches_of_similar_length([len(row.ids) for row in rows], budget):
            states |= zip(batch, self.hidden([rows[i].ids for i in batch]), strict=True)
        return [states[index] for index in range(len(rows))]

    def _encode_all(
        self,
        rows: Sequence[InputRow],
        budget: int,
        dimensions: int | None,
        normalized: bool,
        show_progress_bar: bool,
    ) -> Floats:
        vectors = np.empty((len(rows), dimensions or self.dim), dtype=np.float32)
        with _progress(len(rows), shown=show_progress_bar) as advance:
            for batch in batches_of_similar_length([len(row.ids) for row in rows], budget):
                computed = self.encode(
                    [rows[i].ids for i in batch],
                    normalized=False,
                    prompt_token_counts=[rows[i].prompt_token_count for i in batch],
                )
                vectors[batch] = truncate_and_normalize(computed, dimensions, normalized)
                advance(len(batch))
        return vectors


def _image_call(name: str) -> Callable[..., Any]:
    """Import a call that embeds images."""
    call: Callable[..., Any] = pkgutil.resolve_name(f"{vision.CALLS}:{name}")
    return call


def _options(
    prompt: str | None, prompt_name: str | None, on_overflow: Overflow | None = None
) -> InputOptions:
    """Return the options of reading; raises TypeError, ValueError and InputError."""
    if prompt is not None:
        check_text(prompt, "the prompt")
    if prompt is not None and prompt_name is not None:
        raise ValueError("give either prompt or prompt_name, not both")
    return InputOptions.of_overflow(on_overflow, prompt=prompt, prompt_name=prompt_name)


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished texts, on a progress bar if it is shown."""
    if not shown:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="text") as bar:
        yield bar.update
