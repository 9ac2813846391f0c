"""WeightedLayerPooling of sentence-transformers: a mean of the states after several layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.model_files.modules import LAYER_WEIGHTS, ModuleEntry


@dataclass(frozen=True)
class LayerWeights:
    """Weights of the states after the last layers.

    path: the module's folder, relative to the model's. count: how many weights there are.
    """

    path: str
    count: int


def read_layer_weights_options(
    folder: Path, entries: Sequence[ModuleEntry], encoder: EncoderConfig
) -> LayerWeights | None:
    """Read the options of a folder; None without the module, and where it has no effect.

    It has none if the encoder's config.json does not ask for the states of all layers.

    Raises ModelError for another number of layers than the encoder's.
    """
    paths = [entry.path for entry in entries if entry.kind == LAYER_WEIGHTS]
    if not paths:
        return None
    if not JsonConfig(folder / entries[0].path / "config.json").get("output_hidden_states", False):
        return None
    options = JsonConfig(folder / paths[0] / "config.json")
    layers, start = options.get("num_hidden_layers", 12), options.get("layer_start", 4)
    if layers != encoder.num_layers:
        raise options.unsupported("num_hidden_layers", layers, encoder.num_layers)
    if not 0 <= start <= layers:
        raise options.unsupported("layer_start", start, f"0 to {layers}")
    return LayerWeights(paths[0], layers + 1 - start)
