"""modules.json of sentence-transformers: the parts of a model in their order, without weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from models.config.json_config import JsonConfig, read_json
from models.errors import ModelError

STATIC = "StaticEmbedding"
CLIP = "CLIPModel"
ENCODERS = ("Transformer", STATIC, CLIP)
_PACKAGE = "sentence_transformers."


@dataclass(frozen=True)
class Entry:
    """One line of modules.json. path: of its folder, inside the model's."""

    kind: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A product with an activation after it, one of ACTIVATIONS.

    tensor: its weight, which lies alone at `path` unless it has another name: then with others.
    """

    path: str
    inputs: int
    outputs: int
    bias: bool
    activation: str
    tensor: str = "linear.weight"

    @property
    def alone(self) -> bool:
        return self.tensor == "linear.weight"


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    """Layer normalisation of a vector."""

    path: str
    inputs: int

    @property
    def outputs(self) -> int:
        return self.inputs


@dataclass(frozen=True)
class Normalize:
    """Division by the Euclidean length."""


Module = Dense | LayerNorm | Normalize
"""What follows the pooling, and changes the vectors."""

ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
"""What a Dense may end with: classes of torch.nn."""


def entries(folder: Path) -> tuple[Entry, ...]:
    """What modules.json lists; a folder without it is an encoder alone, or of model2vec.

    Raises ModelError for a module that is not implemented, or one that is not at its place.
    """
    path = folder / "modules.json"
    found = _listed(path) if path.exists() else _implied(folder)
    kinds = [entry.kind for entry in found]
    if unknown := [kind for kind in kinds if kind not in (*ENCODERS, "Pooling", *_READERS)]:
        supported = (*ENCODERS, "Pooling", *_READERS)
        raise ModelError(f"{path}: modules {unknown} are not supported; supported: {supported}")
    after = kinds[2:] if kinds[:2] == ["Transformer", "Pooling"] else kinds[1:]
    if not {*kinds[:1]} & {*ENCODERS} or not _READERS.keys() >= {*after}:
        raise ModelError(f"{path}: modules {kinds} in this order are not supported")
    return found


def following(folder: Path, found: Sequence[Entry], width: int) -> list[Module]:
    """What comes after the pooling, of vectors of a width.

    Raises ModelError for an option that is not implemented, and for widths that do not fit.
    """
    modules = [made for entry in found for made in _read(folder, entry)]
    for module in modules:
        if isinstance(module, Normalize):
            continue
        if module.inputs != width:
            raise ModelError(
                f"{folder / module.path}: it takes {module.inputs} dimensions, and gets {width}"
            )
        width = module.outputs
    return modules


def _listed(path: Path) -> tuple[Entry, ...]:
    listed = read_json(path)
    if not isinstance(listed, list):
        raise ModelError(f"{path} is not a JSON list")
    lines = [JsonConfig(path, line) for line in listed]
    return tuple(_entry(path, line["type"], line["path"]) for line in lines)


def _entry(path: Path, kind: str, where: str) -> Entry:
    if not kind.startswith(_PACKAGE):
        raise ModelError(f"{path}: modules {[kind]} are not supported: code of a model is not run")
    place = PurePosixPath(where)
    if place.is_absolute() or ".." in place.parts:
        raise ModelError(f"{path}: {where!r} is not inside of the model's folder")
    return Entry(kind.rpartition(".")[2], where)


def _implied(folder: Path) -> tuple[Entry, ...]:
    raw = JsonConfig.optional(folder / "config.json")
    if raw.get("model_type") != "model2vec":
        return (Entry("Transformer", ""),)
    return (Entry(STATIC, ""), *[Entry("Normalize", "")] * bool(raw.get("normalize", False)))


def _read(folder: Path, entry: Entry) -> list[Module]:
    read = _READERS.get(entry.kind)
    return read(folder, entry.path) if read else []


def _dense(folder: Path, path: str) -> list[Module]:
    raw = JsonConfig(folder / path / "config.json")
    raw.only("module_input_name", "sentence_embedding")
    raw.only("module_output_name", "sentence_embedding")
    raw.only("use_residual", False)
    name = raw.get("activation_function", "torch.nn.modules.activation.Tanh")
    kind = name.rpartition(".")[2]
    if not name.startswith("torch.nn.modules.") or kind not in ACTIVATIONS:
        raise raw.refusal("activation_function", name, ACTIVATIONS)
    made = Dense(
        path=path,
        inputs=raw["in_features"],
        outputs=raw["out_features"],
        bias=raw.get("bias", True),
        activation=kind,
    )
    return [made]


def _layer_norm(folder: Path, path: str) -> list[Module]:
    return [LayerNorm(path=path, inputs=JsonConfig(folder / path / "config.json")["dimension"])]


def _normalize(folder: Path, path: str) -> list[Module]:
    config = folder / path / "config.json"
    if config.exists():
        raw = JsonConfig(config)
        raw.only("module_input_name", "sentence_embedding")
        raw.only("module_output_name", "sentence_embedding")
    return [Normalize()]


def _nothing(folder: Path, path: str) -> list[Module]:
    return []


_READERS: Mapping[str, Callable[[Path, str], list[Module]]] = {
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": _normalize,
    "Dropout": _nothing,  # of training alone
}
