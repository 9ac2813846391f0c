"""Copy the default model into a folder, with float16 weights: half the size.

python -m deploy.gpu.float16_model FOLDER
"""

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from embedwell_models.hub.sources import DEFAULT, resolve

WEIGHTS = "model.safetensors"


def main() -> None:
    source, target = resolve(DEFAULT), Path(sys.argv[1])
    shutil.copytree(source, target, dirs_exist_ok=True)
    tensors = load_file(source / WEIGHTS)
    halves = {
        name: tensor.to(torch.float16) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    save_file(halves, target / WEIGHTS, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
