"""Worker of the benchmark of images."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.turns import answer

Embed = Callable[[Sequence[bytes]], Any]
"""Function from encoded images to their vectors (B, D)."""


def ours(folder: Path, threads: int, dtype: str) -> Embed:
    """This project's engine, without a server."""
    from embedwell_models import Embedder
    from embedwell_models.encoder.threads import set_thread_count

    set_thread_count(threads)
    embedder = Embedder.load(folder, dtype=dtype, device="cpu")
    assert embedder.image_dtype == dtype
    return embedder.embed_images


def sentence_transformers(folder: Path, threads: int, dtype: str) -> Embed:
    """sentence-transformers on torch."""
    import torch
    from PIL import Image
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    model: Any = SentenceTransformer(
        str(folder), device="cpu", model_kwargs={"dtype": getattr(torch, dtype)}
    )
    return lambda images: model.encode([Image.open(io.BytesIO(each)) for each in images])


def fastembed(folder: Path, threads: int, dtype: str) -> Embed:
    """fastembed on onnxruntime, with the model of its list that has this shape."""
    from fastembed import ImageEmbedding
    from PIL import Image

    model: Any = ImageEmbedding(
        "Qdrant/clip-ViT-B-32-vision", specific_model_path=str(_exported(folder)), threads=threads
    )
    return lambda images: [*model.embed([Image.open(io.BytesIO(each)) for each in images])]


def _exported(folder: Path) -> Path:
    """Return the folder with the image encoder in ONNX, which the first call exports."""
    target = folder.with_name(f"{folder.name}-onnx")
    if (target / "model.onnx").exists():
        return target
    import shutil

    import torch
    from transformers import CLIPVisionModelWithProjection

    target.mkdir(exist_ok=True)
    model: Any = CLIPVisionModelWithProjection.from_pretrained(folder)
    torch.onnx.export(
        model.eval(),
        (torch.zeros(1, 3, 224, 224),),
        str(target / "model.onnx"),
        input_names=["pixel_values"],
        output_names=["image_embeds"],
        dynamic_axes={"pixel_values": {0: "batch"}, "image_embeds": {0: "batch"}},
        opset_version=17,
        dynamo=False,  # the exporter whose graph onnxruntime runs faster
    )
    shutil.copy(folder / "preprocessor_config.json", target)
    return target


ENGINES = {"ours": ours, "sentence_transformers": sentence_transformers, "fastembed": fastembed}


def read(folder: Path) -> list[bytes]:
    """Read all images of a folder."""
    return [each.read_bytes() for each in sorted(folder.iterdir())]


if __name__ == "__main__":
    answer(ENGINES, read)
