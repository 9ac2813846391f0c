"""Description of a model folder, read from its small files without weights and torch."""

import logging
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from embedwell_models import families, vision
from embedwell_models.checkpoint import safetensors_files, weights
from embedwell_models.config.model_options import (
    AUTO,
    DEFAULT_OPTIONS,
    RERANK_CHOICES,
    UNICODE_FORMS,
    ModelOptions,
)
from embedwell_models.config.model_spec import (
    Adapters,
    ImageEncoderSpec,
    ModelSpec,
    SquareImageSpec,
)
from embedwell_models.config.other_files import permission_denied
from embedwell_models.errors import ModelError
from embedwell_models.model_files import modules
from embedwell_models.model_files.card import declared_dimensions, has_token_vectors, read_kind
from embedwell_models.model_files.modules import (
    IMAGE_ENCODER,
    LOGIT_SCORE,
    STATIC,
    TABLES,
    WORDS,
    ModuleEntry,
    refuse_changed_weights,
    refuse_unknown_keys,
)
from embedwell_models.model_files.sparse import TOKEN_VECTORS, Splade
from embedwell_models.model_files.vector_modules import WithoutWeights
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.outputs.names import (
    DECISION,
    DENSE,
    LABELS,
    MULTI,
    SPARSE,
    SPARSE_QUERY,
    Task,
)
from embedwell_models.positions.schemes import Buckets
from embedwell_models.tokenizer.tokens import MAX_UNSPLIT_CHARACTERS
from embedwell_models.vectors import AllowedDimensions, Floats
from embedwell_models.vision import ImageTokens, Pages, Preprocessing

if TYPE_CHECKING:  # imported for a model that has them, and where texts are tokenized
    from embedwell_models.model_files.classifier import ClassifierOptions, ListwiseOptions
    from embedwell_models.model_files.multi_vector import MultiVectorOptions
    from embedwell_models.model_files.multi_vector_rules import MultiVectorRules
    from embedwell_models.tokenizer.formats import AnyPairFormat
    from embedwell_models.tokenizer.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_INDICES = {"I64", "U64", "BOOL"}  # types of numbers that are not weights
_TABLES = {STATIC: "static", WORDS: "word_vectors"}  # families of the kinds of modules


@dataclass(frozen=True)
class ModelDescription:
    """A model folder. encoder: the folder inside it with the encoder and the tokenizer.

    image_encoder: the folder with the image encoder, if there is one.
    classifier: set for a model that reranks or classifies; None for an embedder. preprocessing: the
    preprocessing of images; None for a model without an image encoder or without the file that
    describes it. patches: the same, for images that are tokens of a text. pages: the same, for
    images whose tokens have a vector each. multi_vector: set for a model with a vector for each
    token; None for other models. unicode_normalization: one of UNICODE_FORMS.
    """

    path: Path
    encoder: Path
    spec: ModelSpec
    recipe: VectorRecipe
    image_encoder: Path
    classifier: "ClassifierOptions | None" = None
    preprocessing: Preprocessing | None = None
    patches: ImageTokens | None = None
    pages: Pages | None = None
    multi_vector: "MultiVectorOptions | None" = None
    unicode_normalization: str = "none"

    @classmethod
    def read(cls, path: Path, options: ModelOptions = DEFAULT_OPTIONS) -> "ModelDescription":
        """Read the small files of a folder; the options override values in them, unless AUTO.

        Raises ModelError for a model that is not supported and for invalid files.
        """
        try:
            return cls._read(path, options)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # Caused by a value whose type was not validated before its use.
            raise ModelError(f"{path}: its files are inconsistent: {error!r}") from error
        except PermissionError as error:
            raise ModelError(permission_denied(error.filename)) from None
        except OSError as error:  # such as a name of more characters than the system allows
            raise ModelError(f"{path}: a file cannot be read: {error}") from None

    @classmethod
    def _read(cls, path: Path, options: ModelOptions) -> "ModelDescription":
        for name, choices in (
            ("rerank_format", RERANK_CHOICES),
            ("unicode_normalization", UNICODE_FORMS),
        ):
            if (value := getattr(options, name)) not in choices:
                raise ModelError(f"{name} {value!r} is not one of {choices}")
        read_kind(path)
        tasks = modules.read_tasks(path)
        route = modules.task_route(tasks, options.adapter)
        entries = modules.read_entries(path, route)
        refuse_unknown_keys(path, entries)
        encoder = path / entries[0].path
        refuse_changed_weights(encoder)
        spec = _read_spec(path, entries[0], tasks).with_adapter(options.adapter)
        classifier = _classifier(path, entries, spec, options)
        if classifier is None:
            spec = replace(spec, decoder=None)
        else:
            from embedwell_models.model_files.classifier import has_second_segment

            segments = spec.decoder is not None or has_second_segment(encoder, spec.config)
            config = replace(spec.config, two_segments=segments)
            spec = replace(spec.without(classifier.head.tensor_names), config=config)
        multi_vector = _multi_vector(path, entries, spec, options)
        if multi_vector:
            spec = spec.without(multi_vector.tensors_in_encoder_file)
            recipe = VectorRecipe.of_multi_vector(path, entries[0].path, spec, multi_vector)
        elif classifier:
            inner = entries[0].path
            recipe = VectorRecipe.of_classifier(path, inner, spec.config, classifier)
        else:
            recipe = VectorRecipe.read(path, entries, spec, options.pooling)
        description = cls(
            path=path,
            encoder=encoder,
            spec=spec,
            recipe=replace(recipe, role=route) if tasks else recipe,
            image_encoder=encoder,
            classifier=classifier,
            multi_vector=multi_vector,
            unicode_normalization=options.unicode_normalization,
        )
        return _with_images(description, entries[0])

    @property
    def task(self) -> Task:
        """Task of the model: to embed texts or tokens, to rerank, to classify or to decide."""
        if self.multi_vector:
            return "multi_vector"
        if {DECISION, LABELS}.intersection(self.outputs):
            return "decide"
        return self.classifier.task if self.classifier else "embed"

    @property
    def images(self) -> SquareImageSpec | None:
        """Image encoder; None if there is none, or if its preprocessing is unknown."""
        described = self.preprocessing or self.pages or self.patches
        return self.spec.images if described else None

    @property
    def image_tokens(self) -> ImageEncoderSpec | None:
        """Image encoder whose vectors are tokens of a text; None as for `images`."""
        return self.spec.image_tokens if self.patches or self.pages else None

    @property
    def reads_images(self) -> bool:
        """Whether the model embeds images."""
        return self.images is not None or self.image_tokens is not None

    @property
    def _adds_special_tokens(self) -> bool:
        page_format = self.spec.page_format
        if self.pair_format or self.listwise:
            return False
        return page_format is None or page_format.special_tokens

    @property
    def pair_format(self) -> "AnyPairFormat | None":
        """Format in which a language model that reranks reads pairs; None for other models."""
        return self.classifier.pair_format if self.classifier else None

    @property
    def listwise(self) -> "ListwiseOptions | None":
        """The options of a listwise reranker; None for other models."""
        return self.classifier.listwise if self.classifier else None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs of a text (embedwell_models.outputs.names); empty for a reranker."""
        if self.classifier:
            return ()
        if outputs := families.named(self.spec.config.family).outputs:
            return outputs
        if self.multi_vector:
            return (MULTI,)
        sparse = self.recipe.sparse
        if isinstance(sparse, Splade):
            return (SPARSE, SPARSE_QUERY) if sparse.query else (SPARSE,)
        return (DENSE, *[SPARSE] * bool(sparse), *[MULTI] * (self.token_options is not None))

    @property
    def token_options(self) -> "MultiVectorOptions | None":
        """Options of the vectors of tokens; None for a model without them."""
        if self.multi_vector or self.classifier:
            return self.multi_vector
        is_bge_m3 = (self.path / TOKEN_VECTORS).is_file()
        if not is_bge_m3 and not self.spec.token_projection:
            return None
        from embedwell_models.model_files.multi_vector import BGE_M3, NEXT_TO_DENSE

        return BGE_M3 if is_bge_m3 else NEXT_TO_DENSE

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return self.recipe.vector_width(self.spec.config)

    @property
    def token_dim(self) -> int:
        """Number of dimensions of a token's vector."""
        projection = None if self.multi_vector else self.spec.token_projection
        return projection.width if projection else self.dim

    def allowed_dimensions(self, choice: str = "declared") -> AllowedDimensions:
        """Return the dimensions to which vectors may be truncated; raises ModelError.

        choice: see `AllowedDimensions.from_setting`.
        """
        full = self.recipe.vector_width(self.spec.config, truncated=False)
        declared = declared_dimensions(self.encoder, full, self.dim)
        return AllowedDimensions.from_setting(choice, self.dim, declared)

    def tokenizer(self, max_chunk_size: int = MAX_UNSPLIT_CHARACTERS) -> "Tokenizer":
        """Load the tokenizer with the model's options.

        Logs a warning for added tokens outside the table, and raises ModelError for words there.
        """
        from embedwell_models.tokenizer.tokenizer import Tokenizer  # an engine needs none

        recipe = self.recipe
        tokenizer = Tokenizer(
            self.encoder,
            recipe.max_length,
            recipe.lowercase,
            side=recipe.side,
            file_only=recipe.file_only,
            special_tokens=self._adds_special_tokens,
            text_after=recipe.text_format.after if recipe.text_format else "",
            compose=self.unicode_normalization == "nfc",
            keep_unknown=recipe.keep_unknown,
            markers=self.multi_vector.markers if self.multi_vector else (),
            max_chunk_size=max_chunk_size,
        )
        if recipe.padded and tokenizer.special_id("pad") is None:
            raise ModelError(f"{self.encoder}: the tokenizer has no pad_token to pad texts")
        last = self.spec.config.vocab_size - 1
        if tokenizer.word_count > last + 1:
            raise ModelError(
                f"{self.encoder}: the tokenizer has {tokenizer.word_count} words, the table "
                f"{last + 1}: they are of two models; fetch both again"
            )
        if tokenizer.max_id > last:
            log.warning(
                "%s: the tokenizer has ids up to %s, the table up to %s; a text with a token "
                "outside the table cannot be embedded",
                *(self.encoder, tokenizer.max_id, last),
            )
        return tokenizer

    def multi_vector_rules(self, tokenizer: "Tokenizer") -> "MultiVectorRules | None":
        """Return the rules of a multi-vector model for token ids; None for other models.

        Raises ModelError for a token that the tokenizer lacks.
        """
        options = self.token_options if MULTI in self.outputs else None
        if options is None:
            return None
        from embedwell_models.model_files.multi_vector_rules import MultiVectorRules

        return MultiVectorRules(options, tokenizer, self.encoder)

    def bias_table(self) -> Floats | None:
        """Read the trained bias of each bucket of distances (buckets, H), or return None.

        Raises ModelError for a checkpoint that cannot be read or lacks the tensor.
        """
        positions = self.spec.config.attention.positions
        if not isinstance(positions, Buckets) or not positions.shared:
            return None
        headers = weights.headers(self.encoder)
        names = [name for name in headers if self.spec.rename(name) == ["bias_table"]]
        if not names:
            missing = self.spec.their_names(["bias_table"])
            raise ModelError(f"{self.encoder}: the checkpoint lacks {missing}")
        tensors = weights.iterate_tensors(self.encoder)
        table = next(tensor for name, tensor in tensors if name == names[0])
        return safetensors_files.to_finite_float32(self.encoder, names[0], table).copy()

    def with_prompts(self, prompts: Mapping[str, str]) -> "ModelDescription":
        """Return the description with further prompts, which replace prompts of the same names.

        The one named "default" is for texts without a prompt. Raises ModelError for a model whose
        prompts are a part of it, and for one that reads pairs.
        """
        if self.multi_vector or self.classifier:
            kind = "multi-vector model" if self.multi_vector else "reranker or classifier"
            raise ModelError(f"{self.path}: a {kind} takes no other prompts than its own")
        default = prompts.get("default", self.recipe.default_prompt)
        merged = {**self.recipe.prompts, **prompts}
        return replace(self, recipe=replace(self.recipe, prompts=merged, default_prompt=default))

    def checkpoints(self) -> list[Path]:
        """List the folders with weights: first the encoder's, then the later modules'."""
        paths = [
            self.path / module.path
            for module in self.recipe.modules
            if not isinstance(module, WithoutWeights)
        ]
        if self.recipe.layer_weights is not None:
            paths.insert(0, self.path / self.recipe.layer_weights.path)
        if self.recipe.word_weights is not None:
            paths.insert(0, self.path / self.recipe.word_weights)
        if self.images:
            paths.append(self.image_encoder)
        return [self.encoder, *(path for path in paths if path != self.encoder)]

    @cached_property
    def weights_format(self) -> Literal["safetensors", "GGUF", "ONNX"]:
        """Format of the encoder's weights."""
        return safetensors_files.format_name(self.encoder)

    @cached_property
    def stored_numbers(self) -> Mapping[str, int]:
        """Parameters of each type in the files, by the files' names of the types.

        Raises ModelError for a file that cannot be read.
        """
        counts: dict[str, int] = {}
        for folder in self.checkpoints():
            for header in weights.headers(folder).values():
                counts[header.dtype] = counts.get(header.dtype, 0) + prod(header.shape)
        return counts

    @property
    def parameters(self) -> int:
        """Number of parameters in the files, as hubs count them; raises like `stored_numbers`.

        It may be above that of the loaded ones, because files have parts that no vector needs.
        """
        return sum(n for kind, n in self.stored_numbers.items() if kind not in _INDICES)


def _read_spec(path: Path, encoder: ModuleEntry, tasks: tuple[str, ...]) -> ModelSpec:
    table, folder = _TABLES.get(encoder.kind), path / encoder.path
    spec = families.read_table(table, folder) if table else families.read(folder)
    replaced = spec.adapters or tasks or families.named(spec.config.family).replaces_module
    if encoder.custom and not replaced:
        raise ModelError(f"{path}: modules.json names remote code, which is not run")
    if tasks and spec.adapters:
        raise ModelError(
            f"{path}: a model with adapters inside a {modules.ROUTER} is not supported"
        )
    return replace(spec, adapters=Adapters(names=tasks)) if tasks else spec


def _with_images(description: ModelDescription, encoder: ModuleEntry) -> ModelDescription:
    # With the preprocessing of its images, and the image encoder of another model, if it has one.
    spec = description.spec
    if not (spec.images or spec.image_tokens or (description.path / IMAGE_ENCODER).is_dir()):
        return description
    read: Callable[[ModelDescription, ModuleEntry], ModelDescription]
    read = pkgutil.resolve_name(vision.OPTIONS)
    return read(description, encoder)


def _classifier(
    path: Path,
    entries: Sequence[ModuleEntry],
    spec: ModelSpec,
    options: ModelOptions,
) -> "ClassifierOptions | None":
    # With a pooling, from the files or the operator, the encoder of a classifier is an embedder.
    scores = len(entries) == 1 or entries[1].kind == LOGIT_SCORE
    if not scores or options.pooling != AUTO or entries[0].kind in TABLES:
        return None
    from embedwell_models.model_files.classifier import ClassifierOptions

    return ClassifierOptions.read(path, entries, spec.config, options.rerank_format)


def _multi_vector(
    path: Path, entries: Sequence[ModuleEntry], spec: ModelSpec, options: ModelOptions
) -> "MultiVectorOptions | None":
    if not has_token_vectors(path, path / entries[0].path) and spec.page_format is None:
        return None
    from embedwell_models.model_files.multi_vector import MultiVectorOptions, refuse_unsupported

    multi_vector = MultiVectorOptions.read(path, entries, spec)
    if multi_vector:
        refuse_unsupported(path, multi_vector, spec, options.pooling)
    return multi_vector
