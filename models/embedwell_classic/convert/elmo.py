"""Conversion of the two files of ELMo: NAME_weights.hdf5 and NAME_options.json.

AllenNLP published these files, with the variables of a TensorFlow model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell_classic.convert.module_files import check_finite, encoder_folder, write_json
from embedwell_classic.families import elmo
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import read_object
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import CHARACTER_FILE

SUFFIX = ".hdf5"
_MAX_BYTES = 4096  # limit of a text: an LSTM has none, but reads words one by one
_MIX = "scalar_mix_parameters"  # of AllenNLP's class Elmo, before the softmax
_Array = npt.NDArray[Any]
_Arrays = dict[str, _Array]


def convert_elmo(source: Path, target: Path) -> None:
    """Write an ELMo folder that the server can read; after an error, no folder is left.

    Raises ModelError for files that are missing or cannot be read, and if `target` exists.
    """
    try:
        import h5py
    except ImportError:
        raise ModelError(f"{source}: its weights are in HDF5: pip install h5py") from None
    named = source.with_name(source.stem.removesuffix("_weights") + "_options.json")
    options = read_object(named if named.is_file() else source.with_name("options.json"))
    problem = "or its options are not files of ELMo"
    with encoder_folder(source, target, problem) as scratch, h5py.File(source) as file:
        config = _config(options)
        arrays = {**_characters(file, config), **_lstm(file, config), **_mix(options, config)}
        check_finite(source, arrays)
        safetensors_files.write_arrays(scratch / "model.safetensors", arrays)
        write_json(scratch / "config.json", config)
        write_json(scratch / CHARACTER_FILE, {"split_punctuation": True})
        write_json(scratch / "1_Pooling" / "config.json", {"pooling_mode": "mean"})


def _config(options: Mapping[str, Any]) -> dict[str, Any]:
    lstm, cnn = options["lstm"], options["char_cnn"]
    if not lstm["use_skip_connections"] or cnn["n_characters"] not in (261, 262):
        raise ValueError("use_skip_connections must be true, n_characters 261 or 262")
    if (activation := cnn["activation"]) not in ("relu", "tanh"):
        raise ValueError(f"activation {activation!r}")
    return {
        "model_type": elmo.MODEL_TYPE,
        "hidden_size": lstm["projection_dim"],
        "cell_size": lstm["dim"],
        "num_hidden_layers": lstm["n_layers"],
        "max_position_embeddings": _MAX_BYTES,
        "cell_clip": lstm["cell_clip"] or None,
        "state_clip": lstm["proj_clip"] or None,
        "character_size": cnn["embedding"]["dim"],
        "filters": cnn["filters"],
        "num_highway_layers": cnn["n_highway"],
        "max_characters": cnn["max_characters_per_token"],
        "activation": activation,
    }


def _characters(file: Any, config: Mapping[str, Any]) -> _Arrays:
    arrays = {"token_table": file["char_embed"][...]}
    for index, (width, count) in enumerate(config["filters"]):
        weight = file[f"CNN/W_cnn_{index}"][...].reshape(width * config["character_size"], count)
        bias = file[f"CNN/b_cnn_{index}"][...]
        arrays |= _linear(f"convolution_{index}", weight, bias)
    for index in range(config["num_highway_layers"]):
        for part in ("transform", "carry"):
            weight, bias = (file[f"CNN_high_{index}/{kind}_{part}"][...] for kind in "Wb")
            arrays |= _linear(f"highway_{index}.{part}", weight, bias)
    return arrays | _linear(
        "projection", file["CNN_proj/W_proj"][...], file["CNN_proj/b_proj"][...]
    )


def _linear(name: str, weight: _Array, bias: _Array) -> _Arrays:
    # TensorFlow's matrices are (in, out).
    return {f"{name}.weight": np.ascontiguousarray(weight.T), f"{name}.bias": bias}


def _lstm(file: Any, config: Mapping[str, Any]) -> _Arrays:
    arrays: _Arrays = {}
    for index in range(config["num_hidden_layers"]):
        for number, direction in enumerate(("forward", "backward")):
            group = file[f"RNN_{number}/RNN/MultiRNNCell/Cell{index}/LSTMCell"]
            bias = _in_torchs_order(group["B"][...])
            cells = config["cell_size"]
            bias[cells : 2 * cells] += 1  # TensorFlow adds it in the computation
            matrix = _in_torchs_order(group["W_0"][...].T)
            width = config["hidden_size"]
            parts = {
                "input.weight": matrix[:, :width],
                "recurrent.weight": matrix[:, width:],
                "input.bias": bias,
                "projection.weight": group["W_P_0"][...].T,
            }
            for name, part in parts.items():
                arrays[f"lstm.{index}.{direction}.{name}"] = np.ascontiguousarray(part)
    return arrays


def _in_torchs_order(rows: _Array) -> _Array:
    # Reorders TensorFlow's gates i, g, f, o to i, f, g, o.
    i, g, f, o = np.split(rows, 4)
    return np.concatenate([i, f, g, o])


def _mix(options: Mapping[str, Any], config: Mapping[str, Any]) -> _Arrays:
    layers = config["num_hidden_layers"] + 1
    scores = np.array(options.get(_MIX, [0.0] * layers), dtype=np.float32)
    powers = np.exp(scores - scores.max())
    return {"mix": powers / powers.sum()}
