"""Specification of a model: the encoder's configuration and the names of its tensors."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import ClassVar, Protocol

from embedwell_models.config import tensor_names
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.tensor_names import split
from embedwell_models.errors import ModelError

LARGEST = -1
AUTO = "auto"
NO_ADAPTER = "none"
_OF_LAYER = "layers.{}."
_PARAMETRIZED = ".parametrizations.weight.original"


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Projection to the vector of a text or an image: the state of one token times a matrix.

    pooling: pools the states before the projection, in place of the choice of one token.
    tensor: name of the matrix in the checkpoint, (width, D). bias: whether a vector is added.
    end: the id whose first occurrence ends a text; LARGEST for the largest id of the text; None if
    the last token ends it. padded: whether texts are padded to the maximum length, as in training.
    always: whether the model has no other vectors. outputs: how many of the first of these
    numbers a vector has; None for all.
    """

    tensor: str
    width: int
    outputs: int | None = None
    end: int | None = None
    always: bool = True
    bias: bool = False
    padded: bool = False
    pooling: str | None = None


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """Low-rank additions to the matrices for each task (LoRA: Hu et al. 2021, arXiv 2106.09685).

    names: the tasks, in the order of the checkpoint. scale: factor of the additions; None if each
    task has modules of its own in place of additions.
    modules: part of the names of these modules' tensors that precedes the task, which the names in
    `ModelSpec.tensors` lack; "" if the checkpoint has no such tensors.
    chosen: index of the task; None for the matrices without additions.
    folder: name of the folder that has a folder for each task, as PEFT saves it, with a scale of
    its own; "" if the checkpoint has the additions.
    in_one_file: whether this folder has one file for all tasks, with their names in its tensors.
    always: whether each vector of the model is for a task.
    symmetric: tasks that give every text the prompt of queries.
    """

    names: tuple[str, ...]
    scale: float | None = None
    chosen: int | None = None
    folder: str = ""
    in_one_file: bool = False
    always: bool = False
    modules: str = ""
    symmetric: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """Name of the chosen task; None without one."""
        return None if self.chosen is None else self.names[self.chosen]

    @property
    def chosen_folder(self) -> str | None:
        """Folder of the chosen task's files; None without a task or such files."""
        if not self.folder or self.name is None:
            return None
        return self.folder if self.in_one_file else f"{self.folder}/{self.name}"

    def without_task(self, name: str) -> str:
        """Return the name of a tensor without that of the chosen task."""
        if not self.modules or self.chosen is None:
            return name
        return name.replace(f"{self.modules}.{self.names[self.chosen]}.", f"{self.modules}.")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Configuration of an encoder, and the names of the tensors in its checkpoint.

    tensors: name in the checkpoint ('{}' is the layer number) -> our name, see `tensor_names`. A
    layer has those of them that LayerSpec.has names. Several names separated by '|' split the rows
    into parts, which are equal unless there are fewer heads of keys and values.
    unused: patterns of the names of tensors that inference does not need.
    skipped_layers: numbers of layers in the checkpoint that are not computed. first_layer: number
    that is added to those of its layers.
    prefixes: removed from the start of the names that have one, as in checkpoints saved with a task
    head; `tensors` are without them.
    by_head: whether a fused query, key and value are interleaved by head.
    transposed: our names, without the layer, of matrices that are stored as (in, out).
    norm_shift: number that is added to the weight of every norm.
    projection: the projection that computes the vector of a text in place of a pooling.
    token_projection: the projection that computes a vector of each token, in place of both or
    next to them.
    page_format: the texts around queries and images of pages, with a token_projection.
    spare_rows: number of unused rows at the end of the token table.
    placeholders: id -> another id, whose vector it shares.
    shapes: shapes of our tensors that do not follow from `config`.
    images: the image encoder of a checkpoint of texts and images.
    image_tokens: the image encoder whose vectors are tokens of a text.
    adapters: set for a checkpoint whose matrices have the names of torch's parametrizations; None
    for other checkpoints.
    state_layers: layers between those of the encoder and the pooling; None without.
    decoder: the decoder that reads the encoder's states; None without.
    bidirectional_code: name of the model's own code by which a decoder's tokens see the whole text;
    "" if no name decides it.
    unread_keys: keys of config.json that nothing reads, and that are not known to change nothing.
    """

    config: EncoderConfig
    tensors: Mapping[str, str]
    unused: tuple[str, ...] = ()
    skipped_layers: range = range(0)
    first_layer: int = 0
    prefixes: tuple[str, ...] = ()
    by_head: bool = False
    transposed: tuple[str, ...] = ()
    norm_shift: float = 0.0
    projection: Projection | None = None
    token_projection: Projection | None = None
    page_format: "PageFormat | None" = None
    spare_rows: int = 0
    placeholders: Mapping[int, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    images: "SquareImageSpec | None" = None
    image_tokens: "ImageEncoderSpec | None" = None
    adapters: Adapters | None = None
    state_layers: "StateLayersSpec | None" = None
    decoder: "DecoderSpec | None" = None
    bidirectional_code: str = ""
    unread_keys: tuple[str, ...] = ()

    def with_adapter(self, name: str) -> "ModelSpec":
        """Return this spec with the named adapter, or with `none`.

        Raises ModelError for an unknown adapter.
        """
        if self.adapters is None or self.adapters.always:
            if name == AUTO or (self.adapters is None and name == NO_ADAPTER):
                return self
            raise ModelError(f"the model has no adapters; remove EMBEDWELL_ADAPTER={name}")
        if name == AUTO and self.adapters.chosen is not None:
            return self
        names = self.adapters.names
        if name not in (*names, NO_ADAPTER):
            raise ModelError(
                f"EMBEDWELL_ADAPTER={name} (adapter= in Python) must name the task: one of "
                f"{', '.join(names)}, or {NO_ADAPTER}"
            )
        chosen = None if name == NO_ADAPTER else names.index(name)
        return replace(self, adapters=replace(self.adapters, chosen=chosen))

    def check_tensor_names(self) -> None:
        """Raise ValueError for our names that no layer reads, such as misspelled ones."""
        names = (part for ours in self.tensors.values() for part in split(ours))
        if unknown := tensor_names.unknown(name for name in names if name not in self.shapes):
            raise ValueError(f"no layer reads {unknown}; config/tensor_names.py lists the names")

    @property
    def adapter(self) -> str | None:
        """Name of the chosen adapter, or `none`; None for a checkpoint without a choice."""
        if self.adapters is None or self.adapters.always:
            return None
        return self.adapters.name or NO_ADAPTER

    def without(self, names: Sequence[str]) -> "ModelSpec":
        """Return this spec for an encoder whose checkpoint lacks the tensors of these names."""
        return replace(self, unused=(*self.unused, *map(self._strip, names)))

    def expected(self) -> set[str]:
        """Return our names for all tensors that the encoder needs."""
        names = {part for ours in self.tensors.values() for part in split(ours)}
        by_layer = {name for name in names if name.startswith(_OF_LAYER)}
        return (names - by_layer) | {
            name.format(layer.weights)
            for layer in self.config.layers
            if layer.weights is not None
            for name in by_layer
            if layer.has(name.removeprefix(_OF_LAYER))
        }

    def rename(self, name: str) -> list[str]:
        """Return our names for a tensor of the checkpoint; [] if inference does not need it.

        Raises ModelError for a name that the family does not have.
        """
        if self.adapters:
            name = self.adapters.without_task(name).replace(_PARAMETRIZED, ".weight")
        key, number = self._key(name)
        if key.startswith(_OF_LAYER) and number in self.skipped_layers:
            return []
        if key in self.tensors:
            index = number + self.first_layer
            return [part.format(index) for part in split(self.tensors[key])]
        if self._is_unused(key):
            return []
        raise ModelError(f"unknown tensor {name!r} in the checkpoint: {self._advice(name)}")

    def their_names(self, ours: Iterable[str]) -> list[str]:
        """Return the checkpoint's names of our tensors, in alphabetical order.

        A tensor that holds several of ours, such as query, key and value, is named once.
        """
        return sorted({self._theirs(name)[0] for name in ours})

    def describe(self, ours: str) -> str:
        """Return the checkpoint's name of our tensor, and its part of it, for a message."""
        theirs, parts = self._theirs(ours)
        return f"{theirs} ({ours.split('.')[-2]})" if parts > 1 else theirs

    def _theirs(self, ours: str) -> tuple[str, int]:
        # The checkpoint's name, and the number of our tensors that it holds.
        number = re.match(r"layers\.(\d+)\.", ours)
        pattern = _OF_LAYER + ours[number.end() :] if number else ours
        for theirs, joined in self.tensors.items():
            parts = split(joined)
            if {ours, pattern} & {*parts}:
                layer = int(number[1]) - self.first_layer if number else 0
                return theirs.replace("{}", str(layer)), len(parts)
        return ours, 1

    def _advice(self, name: str) -> str:
        prefix, _, rest = name.partition(".")
        while rest:
            key, _ = self._key(rest)
            if key in self.tensors or self._is_unused(key):
                return (
                    f"it is known without {prefix + '.'!r}: save the model itself, not the module "
                    "around it"
                )
            part, _, rest = rest.partition(".")
            prefix = f"{prefix}.{part}"
        return (
            f"{self.config.family} has none of this name, so the weights are of another kind of "
            "model than config.json says (or the family lacks it in `tensors` or `unused`)"
        )

    def _key(self, name: str) -> tuple[str, int]:
        """Return the key of a name in `tensors`, if it is one, and the number of its layer."""
        # Checkpoints converted from TensorFlow name the parameters of a norm gamma and beta.
        plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", self._strip(name)))
        layer = re.search(r"\.(\d+)\.", f".{plain}")
        key = re.sub(r"\.\d+\.", ".{}.", f".{plain}", count=1)[1:]
        return plain if plain in self.tensors else key, int(layer.group(1)) if layer else 0

    def _is_unused(self, key: str) -> bool:
        return any(fnmatchcase(key, pattern) for pattern in self.unused)

    def _strip(self, name: str) -> str:
        prefix = next((prefix for prefix in self.prefixes if name.startswith(prefix)), "")
        return name.removeprefix(prefix)


@dataclass(frozen=True, kw_only=True)
class DecoderSpec:
    """The decoder of a checkpoint, which has the encoder's table of tokens.

    model: its layers, of which each attends to the encoder's states, too. chunk_size: number of
    consecutive states of which the decoder reads the mean. encoder: class that computes with both
    on torch, as "module:class".
    """

    model: ModelSpec
    chunk_size: int
    encoder: str


@dataclass(frozen=True, kw_only=True)
class StateLayersSpec(ABC):
    """Layers of a family's own between those of its encoder and the pooling.

    in_kernels, on_torch: loaders of these layers for each backend, as "module:function" of the
    encoder's folder and this spec (`loading.state_heads`).
    include_prompt, normalize: whether prompt tokens are pooled and vectors are normalised if there
    is no modules.json.
    """

    in_kernels: ClassVar[str]
    on_torch: ClassVar[str]
    include_prompt: bool
    normalize: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters in their matrices."""


class ImageEncoderSpec(Protocol):
    """The image encoder of a checkpoint; its records are in `embedwell_vision.specs`.

    encoder: configuration and tensors.
    """

    @property
    def encoder(self) -> ModelSpec: ...


class SquareImageSpec(ImageEncoderSpec, Protocol):
    """That of images with vectors of their own, and of squares that are tokens of a text.

    image_size: pixels of a side. tokens: greatest number of tokens of an image. projection: that
    of the vector; None without one.
    """

    @property
    def image_size(self) -> int: ...

    @property
    def tokens(self) -> int: ...

    @property
    def projection(self) -> Projection | None: ...


class PageFormat(Protocol):
    """Texts around images of pages and around queries.

    special_tokens: whether texts have the special tokens of the tokenizer, too.
    """

    @property
    def special_tokens(self) -> bool: ...
