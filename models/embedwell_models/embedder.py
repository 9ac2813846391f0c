"""Facade of this package: a loaded model that embeds texts, pairs and images."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, overload

import numpy as np

from embedwell_models.encoder.batch import Rows, batches_of_similar_length
from embedwell_models.errors import EmptyTextError
from embedwell_models.images.decoding import MAX_PIXELS
from embedwell_models.images.preprocessing import Pixels
from embedwell_models.loading.input_checks import (
    check_images,
    check_pairs,
    check_text,
    check_texts,
    kind,
)
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.output_names import DENSE, LISTWISE
from embedwell_models.tokenizer.formatted_pairs import pair_encoder
from embedwell_models.tokenizer.pairs import Pair
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokens import TruncatedIds
from embedwell_models.vectors import Floats, listwise_scores, normalize, truncate_and_normalize

if TYPE_CHECKING:
    from embedwell_models.loading.loaded_model import LoadedModel
    from embedwell_models.model_files.multi_vector import TextRole


class Embedder(TokenIdEmbedder):
    """A model on a device in a precision, which computes vectors of texts, pairs and images."""

    def __init__(self, model: "LoadedModel", fingerprint: str | None = None) -> None:
        """model, fingerprint: see TokenIdEmbedder. Raises ModelError for a wrong tokenizer."""
        super().__init__(model, fingerprint)
        self._load_tokenizer = model.load_tokenizer
        _ = self.tokenizer  # so that its errors are those of loading

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
        prompt = self._prompt(prompt, prompt_name)
        return [row.ids for row in self._encode_texts(check_texts(texts), prompt)]

    def embed(  # noqa: PLR0913 - all but one are keyword-only
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        dimensions: int | None = None,
        budget: int = 2048,
        show_progress_bar: bool = False,
    ) -> Floats:
        """Embed any number of texts, `budget` tokens at a time: (B, dim), or (dim,) for one str.

        prompt: text before each text, or the instruction of a model that reads texts in a chat
        template; by default the model's own. prompt_name: name of a prompt of the model instead.
        dimensions: number of first dimensions to keep, one of `allowed_dimensions`; the result is
        normalised if the model normalises. show_progress_bar: on standard error.

        Raises TypeError for anything but texts, EmptyTextError, PromptTooLongError,
        UnsplittableTextError, DimensionsError, and ValueError for a lone surrogate, an unknown
        prompt, and a model without dense vectors of texts.
        """
        self._require_dense()
        self.allowed_dimensions.check(dimensions)
        single = isinstance(texts, str)
        checked = check_texts([texts] if single else texts)
        rows, counts = self._rows(checked, self._prompt(prompt, prompt_name))
        vectors = self._encode_all(rows, counts, budget, dimensions, show_progress_bar)
        return vectors[0] if single else vectors

    @overload
    def embed_tokens(  # type: ignore[overload-overlap]
        self, texts: str, role: "TextRole" = "document", *, budget: int = 2048
    ) -> Floats: ...
    @overload
    def embed_tokens(
        self, texts: Sequence[str], role: "TextRole" = "document", *, budget: int = 2048
    ) -> list[Floats]: ...
    def embed_tokens(
        self, texts: str | Sequence[str], role: "TextRole" = "document", *, budget: int = 2048
    ) -> Floats | list[Floats]:
        """Embed the tokens of queries or documents, for `vectors.maxsim`: B arrays (n, dim).

        n: the number of tokens that have a vector. One str has one array. Raises
        UnsplittableTextError, ValueError for a model without vectors of tokens, and the errors of
        a text as `embed` does.
        """
        if isinstance(texts, str):
            return self.embed_tokens([texts], role, budget=budget)[0]
        texts = check_texts(texts)
        if (tokens := self.multi_vector) is None:
            raise ValueError(f"the model has no vectors of tokens; use {self._right_call()}")
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
                f"the model {does} and cannot score pairs; use {self._right_call()}, or load "
                "another reranker"
            )
        single = isinstance(pairs, tuple) and len(pairs) == 2 and isinstance(pairs[0], str)
        checked = check_pairs([pairs] if single else pairs)
        tokenizer = pair_encoder(self.tokenizer, self.config, self.classifier.pair_format)
        if instruction is not None:
            tokenizer = tokenizer.with_instruction(instruction)
        rows = [row.ids for row in run_to_completion(tokenizer.encode(checked))]
        logits = self._encode_all(rows, [0] * len(rows), budget, None, show_progress_bar)
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
            raise ValueError(f"the model ranks no lists; use {self._right_call()}")
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
        if self.patches is None and self.pages is not None:
            raise ValueError("the model has a vector for each token of an image; use embed_pages")
        if self.patches is not None:
            each = [images] if isinstance(images, bytes) else images
            vectors = self.embed_contents([[image] for image in each], max_pixels=max_pixels)
            return vectors[0] if isinstance(images, bytes) else vectors
        if self._preprocessing is None:
            raise ValueError(f"the model has no image encoder; for texts use {self._right_call()}")
        if isinstance(images, bytes):
            vector: Floats = self.embed_images([images], max_pixels=max_pixels)[0]
            return vector
        check_images(images)
        pixels = [self._preprocessing.pixels(image, max_pixels) for image in images]
        vectors = self.encode_images(pixels)
        return normalize(vectors) if self.sentence.normalize else vectors

    def embed_pages(self, images: Sequence[bytes], *, max_pixels: int = MAX_PIXELS) -> list[Floats]:
        """Embed the tokens of images of pages, for `vectors.maxsim`: B arrays (n, dim).

        images, max_pixels: see `embed_images`. The model's text after an image is cut to
        max_length. Raises ImageError, TypeError for anything but bytes, ImageTokensError for an
        image of more tokens than max_length, and ValueError for a model without vectors of an
        image's tokens.
        """
        if self.pages is None:
            raise ValueError(
                f"the model has no vectors of an image's tokens; use {self._right_call()}"
            )
        check_images(images)
        return [self._embed_page(self.pages.images(image, max_pixels)) for image in images]

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
        if self.patches is None:
            raise ValueError(
                f"the model reads no texts with images; for texts use {self._right_call()}"
            )
        used = self._prompt(prompt, prompt_name)
        parts = [self._parts(content, index, max_pixels) for index, content in enumerate(contents)]
        vectors = np.empty((len(contents), self.dim), dtype=np.float32)
        for index, content in enumerate(parts):
            vectors[index] = self._embed_content(content, used)
        return normalize(vectors) if self.sentence.normalize else vectors

    def _parts(
        self, content: Sequence[str | bytes | Pixels], index: int, max_pixels: int
    ) -> list[str | Pixels]:
        assert self.patches is not None
        if isinstance(content, str | bytes | np.ndarray) or not content:
            raise TypeError(f"input {index} is {kind(content)}, not a list of texts and images")
        if self.patches.single and len(content) > 1:
            raise ValueError(f"input {index}: the model embeds one text or one image at a time")
        parts: list[str | Pixels] = []
        for part in content:
            if isinstance(part, bytes):
                parts.append(self.patches.pixels(part, max_pixels))
            elif isinstance(part, np.ndarray):
                parts.append(part)
            else:
                check_text(part, f"a part of input {index}")
                parts.append(part)
        return parts

    def _embed_content(self, parts: Sequence[str | Pixels], prompt: str) -> Floats:
        assert self.patches is not None
        images = [part for part in parts if not isinstance(part, str)]
        used = prompt if self.patches.takes_prompt or not images else ""
        (row,) = self._encode_texts([self.patches.text(parts)], used)
        vector: Floats = self.encode_with_images(row.ids, images)[0]
        return vector

    def _embed_page(self, images: Sequence[Pixels]) -> Floats:
        assert self.pages is not None
        (row,) = self.tokenizer.encode([self.pages.text(images)])
        return self.encode_page(row.ids, images)

    def _require_dense(self) -> None:
        """Raise ValueError for a model without one vector for each text."""
        if DENSE not in self.output_names:
            raise ValueError(
                f"the model has no dense vectors of texts; use {self._right_call()}, or load "
                "another model"
            )

    def _right_call(self) -> str:
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

    def _prompt(self, prompt: str | None, name: str | None) -> str:
        """Return the text of a prompt; raises TypeError or ValueError."""
        prompts = self.sentence.prompts
        if prompt is not None and name is not None:
            raise ValueError("give either prompt or prompt_name, not both")
        if name is not None and name not in prompts:
            raise ValueError(f"no prompt {name!r}; the model has {sorted(prompts)}")
        if name is not None:
            return prompts[name]
        if prompt is None:
            return self.sentence.default_prompt
        check_text(prompt, "the prompt")
        return prompt

    def _rows(self, texts: Sequence[str], prompt: str) -> tuple[Rows, list[int]]:
        """Return the ids of texts after a prompt, and how many of each belong to the prompt.

        Raises EmptyTextError and PromptTooLongError.
        """
        side = self.tokenizer.side
        prompt_token_count = self.sentence.prompt_token_count(prompt, self.tokenizer)
        limit = self.tokenizer.count_limit(prompt_token_count, side)
        rows = self._encode_texts(texts, prompt, limit)
        for index, row in enumerate(rows):
            if len(row.ids) < self.config.min_tokens:
                raise EmptyTextError(index)
        return [row.ids for row in rows], [row.remaining(prompt_token_count, side) for row in rows]

    def _encode_texts(
        self, texts: Sequence[str], prompt: str, count_limit: float = 0
    ) -> list[TruncatedIds]:
        sentence, tokenizer = self.sentence, self.tokenizer
        before = sentence.before_text(prompt)
        rows = tokenizer.encode([before + text for text in texts], count_limit=count_limit)
        if sentence.text_format is None:
            return rows
        start = run_to_completion(tokenizer.ids_without_special(before))
        return [tokenizer.with_start(row, start, tokenizer.side) for row in rows]

    def _encode_all(
        self,
        rows: Rows,
        prompt_token_counts: Sequence[int],
        budget: int,
        dimensions: int | None,
        show_progress_bar: bool,
    ) -> Floats:
        vectors = np.empty((len(rows), dimensions or self.dim), dtype=np.float32)
        normalized = None if dimensions is None else False
        with _progress(len(rows), shown=show_progress_bar) as advance:
            for batch in batches_of_similar_length([*map(len, rows)], budget):
                computed = self.encode(
                    [rows[i] for i in batch],
                    normalized=normalized,
                    prompt_token_counts=[prompt_token_counts[i] for i in batch],
                )
                if dimensions is not None:
                    computed = truncate_and_normalize(computed, dimensions, self.sentence.normalize)
                vectors[batch] = computed
                advance(len(batch))
        return vectors


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished texts, on a progress bar if it is shown."""
    if not shown:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="text") as bar:
        yield bar.update
