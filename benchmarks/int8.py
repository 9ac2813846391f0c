"""Cosines of int8, int4 and bfloat16 vectors to float32, on a thousand texts and several models.

The default model and those of --trained have their real weights. The shapes have random weights; a
few channels of their norms and a few neurons are far larger than the rest, so that the largest
inputs of the products are as many times the median ones as in trained models. The cosines of
bfloat16 tell how much a model magnifies any error. With --matrices, also the cosines of the default
model with one matrix in int8 at a time.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import machine, script
from benchmarks.odd_texts import texts
from benchmarks.script import table
from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder_factory import KernelEncoderFactory
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.hub.sources import DEFAULT, resolve
from embedwell_models.precision.references import ReferenceSentenceEmbedder
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.linear_adapters import TensorKernelLinearFactory
from embedwell_models.vectors import Floats, normalize

_VOCABULARY = 30_522  # of the default model, whose tokenizer all models share
_STD = 0.04
_FIRST = r"(intermediate\.dense|up_proj)\.weight"  # a network's first matrix
_BATCH = 64  # texts

SHAPES: Mapping[str, tuple[str, Mapping[str, Any], str]] = {  # model type, sizes, pooling
    "mpnet-base": ("mpnet", {}, "mean"),
    "BERT-base": ("bert", {}, "cls"),
    "XLM-R-base": ("xlm-roberta", {"max_position_embeddings": 514}, "mean"),
    "Qwen3-0.6B": (
        "qwen3",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "layer_types": ["full_attention"] * 28,
        },
        "lasttoken",
    ),
}
_OTHERS = ("bfloat16", "int4")  # precisions that are compared, too
_FIGURES = ("mean", "median", "hundredth", "least")
PARTS = ("qkv", "output", "up", "down")


@dataclass(frozen=True)
class Model:
    """A model in a folder, with the folder of the tokenizer that its texts are cut by."""

    folder: Path
    tokens: Path
    pooling: Sequence[str]

    def rows(self, drawn: Sequence[str], most: int = 256) -> list[list[int]]:
        """Return the token ids of texts, at most so many of each."""
        return [row.ids[:most] for row in _tokenizer(self.tokens).encode(drawn)]

    def factory(self) -> KernelEncoderFactory:
        """Return the factory of its encoders."""
        spec = families.read(self.folder)
        arrays = weights.load(self.folder, spec)
        sentences = ReferenceSentenceEmbedder(
            lambda: _tokenizer(self.tokens), spec.config.vocab_size, self.vectors
        )
        inputs, calibration = InputTables.of(spec.config, arrays), Calibration(sentences.calibrate)
        return KernelEncoderFactory(arrays, inputs, calibration, None, library.features())

    def vectors(self, encoder: Encoder, batch: Batch) -> Floats:
        """Return unit vectors."""
        return normalize(encoder.vectors(batch, self.pooling))

    def embed(self, encoder: Encoder, rows: Sequence[Sequence[int]]) -> Floats:
        """Return the unit vectors of all texts."""
        parts = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
        return np.concatenate([self.vectors(encoder, Batch.of(part)) for part in parts])


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Compare all models; return the results for the file."""
    library.cap_isa(args.isa)
    drawn = texts(args.seed)
    kinds = [kind for kind, group in drawn.items() for _ in group]
    every = [text for group in drawn.values() for text in group]
    results: dict[str, Any] = {"machine": machine.describe(), "isa": args.isa, "models": {}}
    trained = {"all-MiniLM-L6-v2": args.model, **{Path(path).name: path for path in args.trained}}
    for name in script.choose((*trained, *SHAPES), args.only):
        with _random(name) if name in SHAPES else nullcontext(_trained(trained[name])) as model:
            results["models"][name] = _compare(model, model.rows(every), kinds)
    if args.matrices:
        model = _trained(args.model)
        results["matrices"] = _matrices(model, model.rows(every))
    return results


def _compare(model: Model, rows: Sequence[Sequence[int]], kinds: Sequence[str]) -> dict[str, Any]:
    factory = model.factory()
    expected = model.embed(factory.build("float32"), rows)
    encoder = factory.build("int8")
    start = time.process_time()
    del encoder
    encoder = factory.build("int8")  # the second time, without calibration
    seconds = time.process_time() - start
    cosines = np.vecdot(model.embed(encoder, rows), expected)
    named = np.array(kinds)
    by_kind = {kind: _figures(cosines[named == kind]) for kind in dict.fromkeys(kinds)}
    found = {**_figures(cosines), "packing_cpu_seconds": round(seconds, 3), "kinds": by_kind}
    for dtype in (each for each in _OTHERS if each in factory.supported()):
        rounded = np.vecdot(model.embed(factory.build(dtype), rows), expected)
        of_kinds = {kind: _figures(rounded[named == kind]) for kind in by_kind}
        found[dtype] = {**_figures(rounded), "kinds": of_kinds}
    return found


def _figures(cosines: Floats) -> dict[str, float]:
    figures = {
        "mean": cosines.mean(),
        "median": np.median(cosines),
        "hundredth": np.quantile(cosines, 0.01),  # a hundredth of the texts are below
        "least": cosines.min(),
    }
    return {name: round(float(value), 6) for name, value in figures.items()}


def _matrices(model: Model, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return figures with one matrix in int8 at a time, and the rest in float32."""
    spec, factory = families.read(model.folder), model.factory()
    factory.build("int8")
    assert factory.calibration.magnitudes is not None
    packing, arrays = Packing("int8", factory.calibration.magnitudes), factory.weights
    expected = model.embed(_mixed(spec.config, arrays, packing, "none"), rows)
    figures = {}
    for name in [f"layers.{i}.{part}" for i in range(spec.config.num_layers) for part in PARTS]:
        found = model.embed(_mixed(spec.config, arrays, packing, name), rows)
        figures[name] = _figures(np.vecdot(found, expected))
    return figures


def _mixed(config: Any, arrays: Weights, packing: Packing, chosen: str) -> TorchEncoder:
    cpu = torch.device("cpu")
    return TorchEncoder(
        InputEmbeddings(config, arrays, cpu),
        TorchLayers(config, arrays, _Mixed(packing, chosen), cpu),
    )


class _Mixed(LinearFactory):
    """Linear layers in float32, but for those of one name, which are in int8."""

    dtype = torch.float32
    fuses_residual = True

    def __init__(self, packing: Packing, chosen: str) -> None:
        isas = library.best_isa("float32"), library.best_isa("int8")
        assert isas[0] is not None and isas[1] is not None
        self._exact = TensorKernelLinearFactory(KernelLinearFactory(isas[0], Packing("float32")))
        self._rounded = TensorKernelLinearFactory(KernelLinearFactory(isas[1], packing))
        self._chosen = chosen

    def __call__(
        self, weight: torch.Tensor, bias: torch.Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        factory = self._rounded if name == self._chosen else self._exact
        return factory(weight, bias, activation, name=name)


def _trained(name: str) -> Model:
    folder = resolve(name)
    return Model(folder, folder, ModelDescription.read(folder).recipe.pooling)


@contextmanager
def _random(name: str) -> Iterator[Model]:
    kind, sizes, pooling = SHAPES[name]
    with tempfile.TemporaryDirectory() as folder:
        _write(kind, sizes, Path(folder))
        yield Model(Path(folder), resolve(DEFAULT), [pooling])


def _write(kind: str, sizes: Mapping[str, Any], folder: Path) -> None:
    """Save a model of random weights; all norms but the last have the same outlying channels."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(kind, **{"vocab_size": _VOCABULARY, **sizes})
    from_config: Callable[..., Any] = AutoModel.from_config
    with torch.device("meta"):
        model = from_config(config)
    model = model.to_empty(device="cpu")
    noise = torch.Generator().manual_seed(7)
    width = config.hidden_size
    outliers = torch.randperm(width, generator=noise)[: max(width // 200, 3)]
    last = f"layer.{config.num_hidden_layers - 1}."
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            norm = re.search("norm|ln_", key.lower()) and key.endswith("weight")
            parameter.normal_(1.0 if norm else 0.0, 0.1 if norm else _STD, generator=noise)
            final = f"{last}output" in key or key == "norm.weight" or f"{last}LayerNorm" in key
            if (norm and len(parameter) == width and not final) or re.search(_FIRST, key):
                low, high = _outlying(key)
                factors = low + (high - low) * torch.rand(len(outliers), generator=noise)
                parameter[outliers] = (parameter[outliers].movedim(0, -1) * factors).movedim(-1, 0)
    model.save_pretrained(folder)


def _outlying(key: str) -> tuple[float, float]:
    """Return the least and the largest factor of a norm's channels, or of a network's neurons."""
    if re.search(_FIRST, key):
        return 5.0, 20.0
    after_network = "output.LayerNorm" in key and "attention" not in key
    return (0.1, 0.3) if after_network else (3.0, 8.0)  # which damps what the others raise


@cache
def _tokenizer(folder: Path) -> Any:
    return ModelDescription.read(folder).tokenizer()


def report(results: dict[str, Any]) -> str:
    """Return tables of all results."""
    header, models = ["", *_FIGURES], results["models"]
    parts = [table("cosine of int8 to float32", header, _lines(models))]
    for dtype in _OTHERS:
        if others := {name: found[dtype] for name, found in models.items() if dtype in found}:
            parts.append(table(f"cosine of {dtype} to float32", header, _lines(others)))
    for name, model in models.items():
        parts.append(table(f"{name}, int8", header, _lines(model["kinds"])))
        parts += [
            table(f"{name}, {dtype}", header, _lines(model[dtype]["kinds"]))
            for dtype in _OTHERS
            if dtype in model
        ]
    if "matrices" in results:
        parts.append(table("one matrix in int8", header, _lines(results["matrices"])))
    return "\n".join(parts)


def _lines(groups: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    return [
        [name, *(f"{figures[key]:.6f}" for key in _FIGURES)] for name, figures in groups.items()
    ]


if __name__ == "__main__":
    command_line = script.parser(__doc__, "int8")
    command_line.add_argument("--isa", default="auto", help="the highest instruction set")
    command_line.add_argument(
        "--trained", action="append", default=[], metavar="DIR", help="also this model"
    )
    command_line.add_argument("--matrices", action="store_true", help="also matrix by matrix")
    script.main(command_line, run, report)
