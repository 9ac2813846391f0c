"""Exporter of image encoders to ONNX, which runs in a process of its own."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_SIDE = 224


def exported(folder: Path) -> Path:
    """Return the folder with the image encoder of a CLIP or SigLIP in ONNX, exported if need be."""
    target = folder.with_name(f"{folder.name}-onnx")
    if not (target / "model.onnx").exists():
        target.mkdir(exist_ok=True)
        # In another process, whose memory is not the worker's.
        subprocess.run([sys.executable, "-m", __spec__.name, folder, target], check=True)
    return target


def _export(folder: Path, target: Path) -> None:
    import torch
    from transformers import AutoConfig, CLIPVisionModelWithProjection, SiglipVisionModel

    is_clip = AutoConfig.from_pretrained(folder).model_type == "clip"
    kind: Any = CLIPVisionModelWithProjection if is_clip else SiglipVisionModel
    model = kind.from_pretrained(folder).eval()
    model.forward = _only(model.forward, "image_embeds" if is_clip else "pooler_output")
    torch.onnx.export(
        model,
        (torch.zeros(1, 3, _SIDE, _SIDE),),
        str(target / "model.onnx"),
        input_names=["pixel_values"],
        output_names=["image_embeds"],
        dynamic_axes={"pixel_values": {0: "batch"}, "image_embeds": {0: "batch"}},
        opset_version=17,
        dynamo=False,  # the exporter whose graph onnxruntime runs faster
    )
    shutil.copy(folder / "preprocessor_config.json", target)


def _only(forward: Any, output: str) -> Any:
    return lambda pixel_values: getattr(forward(pixel_values=pixel_values), output)


if __name__ == "__main__":
    _export(*map(Path, sys.argv[1:]))
