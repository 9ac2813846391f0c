"""The two files of an ELMo of random weights, as AllenNLP reads them."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

SIZE, WIDTH, CELLS, LAYERS = 6, 10, 14, 2
FILTERS = [[1, 5], [2, 4], [5, 8]]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": WIDTH,
        "dim": CELLS,
        "n_layers": LAYERS,
        "cell_clip": 0.8,
        "proj_clip": 0.3,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": FILTERS,
        "n_highway": 2,
        "embedding": {"dim": SIZE},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def write_elmo(path: Path, options: dict[str, Any] | None = None) -> None:
    """Write NAME_weights.hdf5 and NAME_options.json. options: in place of OPTIONS."""
    noise, total = np.random.default_rng(7), sum(count for _, count in FILTERS)
    sizes: dict[str, tuple[int, ...]] = {"char_embed": (261, SIZE)}
    for index, (width, count) in enumerate(FILTERS):
        sizes[f"CNN/W_cnn_{index}"] = (1, width, SIZE, count)
        sizes[f"CNN/b_cnn_{index}"] = (count,)
    for index in range(2):
        for part in ("transform", "carry"):
            sizes[f"CNN_high_{index}/W_{part}"] = (total, total)
            sizes[f"CNN_high_{index}/b_{part}"] = (total,)
    sizes |= {"CNN_proj/W_proj": (total, WIDTH), "CNN_proj/b_proj": (WIDTH,)}
    for direction in range(2):
        for layer in range(LAYERS):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            sizes[f"{name}/W_0"] = (2 * WIDTH, 4 * CELLS)
            sizes[f"{name}/B"] = (4 * CELLS,)
            sizes[f"{name}/W_P_0"] = (CELLS, WIDTH)
    with h5py.File(path, "w") as file:
        for name, shape in sizes.items():
            file[name] = noise.normal(0, 0.3, shape).astype(np.float32)
    content = json.dumps(OPTIONS if options is None else options)
    name = path.stem.removesuffix("_weights")
    path.with_name(f"{name}_options.json").write_text(content, encoding="utf-8")
