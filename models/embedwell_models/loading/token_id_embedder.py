"""A loaded model that computes vectors from token ids."""

import logging
import pkgutil
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Self

from embedwell_models import vision
from embedwell_models.config.model_options import AUTO, DEFAULT_OPTIONS, ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch, IdRows, truncate_after, without_trailing
from embedwell_models.encoder.device import return_free_memory
from embedwell_models.encoder.threads import use_one_torch_thread_after_fork
from embedwell_models.hub.sources import DEFAULT, default_cache, resolve
from embedwell_models.outputs.names import DENSE, LISTWISE, MULTI
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.precision.measurement_cache import LoadCache, LoadMeasurements
from embedwell_models.vectors import Floats, TokenIds, normalize
from embedwell_models.vision import ImageVectors, Pixels

if TYPE_CHECKING:
    from embedwell_models.loading.loaded_model import LoadedModel
    from embedwell_models.model_files.multi_vector_rules import MultiVectorRules
    from embedwell_models.tokenizer.tokenizer import Tokenizer


log = logging.getLogger(__name__)

_KERNEL_LENGTHS = (2, 32, 64)
"""Tokens of a text, for each of which a GPU has kernels of its own: `triton_kernels.attention`."""


class TokenIdEmbedder:
    """A model on a device, in a precision.

    fingerprint: identifies everything that decides the vectors, except rounding.

    output_names: the outputs that `outputs` can compute. classifier: set for a model that reranks
    or classifies, whose vectors are logits; None otherwise. multi_vector: set for a model with a
    vector for each token; None otherwise.

    trials: how each tried precision compares with float32. input_magnitudes: what int8 was
    calibrated with, for another load; None in another precision.

    why_torch: what torch computes; None if the compiled kernels compute everything.

    images: the encoders of images; None if the model has none. preprocessing: of images that have
    vectors of their own; None for a model without them. patches: the same, for images that are
    tokens of a text. pages: the same, for images whose tokens have a vector each. graphs: how a GPU
    computes passes, after `warm`.

    A vector does not depend on the other texts of its batch: it is bit-identical on a CPU, and
    equal except for rounding on a GPU.
    """

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
        unicode_normalization: str = "none",
        dimensions: str = "declared",
        cuda_graphs: bool = True,
        revision: str | None = None,
        cache: Path | None = None,
        image_model: str | Path | None = None,
    ) -> Self:
        """Load a model from a folder, the cache, or the network.

        device: auto, cpu, cuda or cuda:N. dtype: auto, float32, bfloat16, float16 (GPU), int8
        or int4 (CPU); auto is the fastest precision that is close to float32 on the reference
        sentences, or bfloat16 on a GPU that has it. pooling: one of MODES in
        `model_options`; auto is the pooling of the model's files. rerank_format: format in which a
        reranker reads pairs, one of RERANK_CHOICES in `model_options`; auto is the format of the
        model's files. adapter: the task of a model with adapters, or none.
        unicode_normalization: none, or nfc to compose letters and their marks before tokenization,
        for tokenizers that lose the marks of decomposed texts.
        dimensions: those to which vectors may be truncated: declared (by the model), any, none, or
        comma-separated numbers.
        isa: the highest instruction set of the compiled kernels, one of CAPS in
        `cpu_backend.library`: auto is the best of this CPU, none uses torch only.
        cuda_graphs: whether `warm` records CUDA graphs on a GPU. cache: folder for fetched models,
        and for what a load measures. image_model: a model in the same space, whose image encoder
        embeds images.

        Raises ModelError if the model, device or precision is not available, or if the model needs
        torch, which is not installed.
        """
        options = ModelOptions(
            revision=revision,
            image_model=str(image_model) if image_model else None,
            device=device,
            dtype=dtype,
            isa=isa,
            pooling=pooling,
            rerank_format=rerank_format,
            adapter=adapter,
            unicode_normalization=unicode_normalization,
            cuda_graphs=cuda_graphs,
        )
        path = resolve(str(model), options, cache)
        description = ModelDescription.read(path, options)
        allowed_dimensions, load_cache = description.allowed_dimensions(dimensions), None
        if dtype != "float32":  # of which nothing is measured
            load_cache = LoadCache((cache or default_cache()) / "library", path, options)
        measured = load_cache.read() if load_cache else None
        embedder = cls._load(description, options, measured)
        embedder.allowed_dimensions = allowed_dimensions
        if load_cache and not measured and not embedder.replaces_gpu:
            parts = embedder.dtype, embedder.trials, embedder.fingerprint
            measured = LoadMeasurements(*parts, embedder.input_magnitudes, embedder.image_dtype)
            load_cache.write(measured)
        return embedder

    @classmethod
    def load_folder(
        cls,
        folder: Path,
        options: ModelOptions = DEFAULT_OPTIONS,
        measured: LoadMeasurements | None = None,
    ) -> Self:
        """Load the model of a folder, without the cache; raises ModelError as `load` does.

        measured: by an earlier load of these files with these options, and not repeated.
        """
        return cls._load(ModelDescription.read(folder, options), options, measured)

    @classmethod
    def _load(
        cls,
        description: ModelDescription,
        options: ModelOptions,
        measured: LoadMeasurements | None,
    ) -> Self:
        # Here, because they import most of the package, which an application may never use.
        from embedwell_models.loading.backends import explain_missing_torch
        from embedwell_models.loading.loaded_model import LoadedModel

        with explain_missing_torch(description, options.device, options.isa):
            loaded = LoadedModel.load(description, options, measured)
        return_free_memory()  # of weights in the file's format, and of the precisions not chosen
        return cls(loaded, measured.fingerprint if measured else None)

    def __init__(self, model: "LoadedModel", fingerprint: str | None = None) -> None:
        """model: see `load`. fingerprint: of the same model, if it is known."""
        from embedwell_models.loading.output_heads import (
            choose_output_computer,
            text_vectors,
        )

        use_one_torch_thread_after_fork()
        description = model.description
        # Not the model's tokenizer, which may have been loaded to compare precisions, and is large.
        self._load_tokenizer: Callable[[], Tokenizer] = cache(description.tokenizer)
        self.recipe, self.dim = description.recipe, description.dim
        self.unicode_normalization = description.unicode_normalization
        self.allowed_dimensions = description.allowed_dimensions()
        self._pad_id = (model.tokenizer.special_id("pad") or 0) if self.recipe.padded else None
        self.classifier = description.classifier
        self.multi_vector = (
            description.multi_vector_rules(model.tokenizer)
            if MULTI in description.outputs
            else None
        )
        self._only_tokens = description.multi_vector is not None  # have vectors, and texts none
        self.config, self.why_torch = description.spec.config, model.why_torch
        self.device, self.dtype, self.isa = model.device, model.dtype, model.isa
        self.replaces_gpu = model.replaces_gpu
        self.trials, self.input_magnitudes = model.trials, model.input_magnitudes
        self.fingerprint = (
            fingerprint or f"{model_fingerprint.fingerprint(description)}-{model.dtype}"
        )
        self.output_names = (LISTWISE,) if description.listwise else description.outputs
        self.images, self.preprocessing = model.images, description.preprocessing
        self.patches, self.pages = description.patches, description.pages
        self.graphs = model.graphs
        self._inputs, self._encoder, self._head = model.inputs, model.encoder, model.head
        bounds = self.config.num_ids, self.config.max_tokens, self.config.min_tokens
        self._batch = partial(_checked_batch, bounds, self.multi_vector)
        self._vectors, self._output_computer = text_vectors(model), choose_output_computer(model)
        self._image_vectors: ImageVectors | None = None
        if model.images is not None:
            build = pkgutil.resolve_name(vision.VECTORS)
            self._image_vectors = build(model, self._batch, self._vectors, self._output_computer)

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer, which the first use loads; raises ModelError."""
        return self._load_tokenizer()

    @property
    def image_dtype(self) -> str | None:
        """Precision of the image encoder; None without one."""
        return self.images.dtype if self.images else None

    @property
    def max_length(self) -> int:
        """Maximum number of tokens that are read of a text, special tokens included."""
        return self.recipe.max_length

    @property
    def max_concurrent_batches(self) -> int:
        """Number of forward passes that can run at once, each on a single thread."""
        return self._encoder.max_concurrent_batches

    @property
    def prefetch_depth(self) -> int:
        """Number of forward passes that other threads may start while the device computes one."""
        return self._encoder.prefetch_depth

    def encode(
        self,
        ids: IdRows,
        *,
        normalized: bool | None = None,
        prompt_token_counts: Sequence[int] = (),
    ) -> Floats:
        """Embed B sequences of token ids in one forward pass: (B, dim).

        normalized: divide by the Euclidean length; by default as the model's files say.
        prompt_token_counts: for each sequence, the number of first tokens that the pooling leaves
        out; by default 0.

        Raises TypeError for texts, and ValueError for an id or a length that the model does not
        have.
        """
        first: object = ids[0] if len(ids) else None
        if isinstance(first, str):
            raise TypeError("encode reads token ids; for texts use embed(texts)")
        if self._only_tokens:
            raise ValueError(
                "the model has a vector for each token, not one for a text; use encode_tokens"
            )
        batch = self._batch(self._padded(self._cut(ids)), prompt_token_counts)
        vectors = self._vectors(batch)
        normalized = self.recipe.normalize if normalized is None else normalized
        return normalize(vectors) if normalized else vectors

    def outputs(
        self, ids: IdRows, names: Sequence[str], *, prompt_token_counts: Sequence[int] = ()
    ) -> list[TextOutputs]:
        """Compute the named outputs of B sequences of token ids in one forward pass.

        Dense vectors are not normalised. names: see `output_names`.
        prompt_token_counts: as in `encode`.

        Raises ValueError for an output, an id or a length that the model does not have.
        """
        if unknown := {*names} - {*self.output_names}:
            raise ValueError(f"no outputs {sorted(unknown)}; the model has {self.output_names}")
        batch = self._batch(self._padded(self._cut(ids)), prompt_token_counts)
        return self._output_computer(batch, names)

    def encode_tokens(self, ids: IdRows) -> list[Floats]:
        """Embed each token of B sequences in one forward pass: B arrays (length, dim).

        The vectors are normalised if the model's files say so.

        Raises ValueError for a model without vectors of tokens, and for an id or a length that it
        does not have.
        """
        if self.multi_vector is None:
            raise ValueError("the model has one vector for each text")
        outputs = self.outputs(ids, [MULTI])
        return [text.multi for text in outputs if text.multi is not None]

    def hidden(self, ids: IdRows, layer: int | str | None = None) -> list[Floats]:
        """Return the hidden states of each of B sequences: B arrays (length, D).

        layer: the number of layers to apply (by default all), or the name of an input embedding:
        'token', 'position' or 'segment'.

        Raises ValueError for an id, a length or a layer that the model does not have.
        """
        lengths, batch = [*map(len, ids)], self._batch(self._padded(ids))
        if isinstance(layer, str):
            states = self._inputs.part(layer, batch)
        else:
            num_layers = self.config.num_layers if layer is None else layer
            if not 0 <= num_layers <= self.config.num_layers:
                raise ValueError(f"layers are 0 to {self.config.num_layers}")
            states = self._encoder.states(batch, num_layers)
        return [row[:n] for row, n in zip(batch.split(states), lengths, strict=True)]

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """Embed the pixels (side, side, 3) of images in one forward pass: (B, dim), not normalised.

        Raises ValueError for a model without an image encoder.
        """
        if self._image_vectors is None:
            raise ValueError("the model has no image encoder")
        return self._image_vectors.encode_images(images)

    def encode_page(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats:
        """Embed each token of the image of a page: (length, dim).

        ids: of the page's text, with the id of `config.json` for each token of an image. images:
        see Pages.images. Raises ImageTokensError for ids that do not fit the images, and ValueError
        for other ids that the model does not have and for a model of other images.
        """
        if self._image_vectors is None or self.pages is None:
            raise ValueError("the model has no vectors of an image's tokens")
        return self._image_vectors.encode_page(ids, images)

    def encode_with_images(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats:
        """Embed a text with images: (1, dim), not normalised.

        The first call loads the image encoder, unless `warm` has done so.

        ids: with the id of `config.json` for each token of an image. images: resized, (height,
        width, 3). Raises ModelError if the encoder cannot be loaded, ImageTokensError for ids that
        do not fit the images, and ValueError for other ids that the model does not have and for a
        model without such an encoder.
        """
        if self._image_vectors is None or self.patches is None:
            raise ValueError("the model has no image encoder")
        if not images:
            return self.encode([ids], normalized=False)
        return self._image_vectors.encode_with_images(ids, images)

    def warm(self) -> None:
        """Prepare the most frequent batch sizes, so that no request waits for the preparation."""
        self._encoder.warm()
        self.try_out([[0]] * 4)  # the id 0 is in every vocabulary
        if self.device.type != "cpu":
            self._warm_kernels()
        if self._image_vectors is not None:
            self._image_vectors.warm()

    def _warm_kernels(self) -> None:
        # A request that is the first of its kind would wait a second for each kernel's compiler.
        start, ends = time.perf_counter(), [[0]]
        if self.multi_vector and (id := self.multi_vector.unattended_id) is not None:
            ends.append([id])
        rows = [[0] * (length - 1) + end for length, end in product(_KERNEL_LENGTHS, ends)]
        for ids in ([row[-self.max_length :]] for row in rows):
            self.try_out(ids)
            for name in self.output_names[1:]:
                self.outputs(ids, [name])
        log.info("warmed the kernels of the GPU in %.1f s", time.perf_counter() - start)

    def try_out(self, ids: IdRows) -> None:
        """Compute the first output of token ids as for a request, and discard it."""
        first = self.output_names[:1]  # a classifier has logits alone
        _ = self.encode(ids) if first in ((), (DENSE,)) else self.outputs(ids, first)

    def _cut(self, ids: IdRows) -> IdRows:
        """Cut the tokens at the end of a text that its vector does not depend on."""
        end, pad_id = self.recipe.end, self.recipe.pad_id
        if pad_id is not None:
            return [without_trailing(row, pad_id) for row in ids]
        return ids if end is None else [truncate_after(row, end) for row in ids]

    def _padded(self, ids: IdRows) -> IdRows:
        if self._pad_id is None:
            return ids
        return [[*row, *[self._pad_id] * (self.max_length - len(row))] for row in ids]


def _checked_batch(
    bounds: tuple[int, int, int],
    rules: "MultiVectorRules | None",
    ids: IdRows,
    prompt_token_counts: Sequence[int] = (),
) -> Batch:
    """Return a batch of token ids; raises ValueError for ids and lengths that do not exist.

    bounds: the arguments of Batch.check_bounds.
    """
    batch = Batch.of(ids, prompt_token_counts)
    batch.check_bounds(*bounds)
    id = rules.unattended_id if rules else None
    return batch if id is None else batch.without_attention_to_trailing(id)
