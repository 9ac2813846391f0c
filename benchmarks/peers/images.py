"""Worker of the benchmark of images."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.image_models import SHAPES
from benchmarks.peers.image_onnx import exported
from benchmarks.peers.turns import answer

Embed = Callable[[Sequence[bytes]], Any]
"""Function from encoded images to their vectors (B, D).

An engine of pixels alone decodes, resizes and normalises them, and returns zeros (B, 1).
"""


def ours(folder: Path, threads: int, dtype: str) -> Embed:
    """This project's engine, without a server."""
    from embedwell_models import Embedder
    from embedwell_models.encoder.threads import set_thread_count

    set_thread_count(threads)
    embedder = Embedder.load(folder, dtype=dtype, device="cpu")
    assert embedder.dtype == dtype
    return embedder.embed_images


def ours_pixels(folder: Path, threads: int, dtype: str) -> Embed:
    """This project's preparation of images."""
    from embedwell_models.config.model_options import DEFAULT_OPTIONS
    from embedwell_models.description.model_description import ModelDescription
    from embedwell_models.vision import MAX_PIXELS
    from embedwell_vision.images.preprocessing import normalised_patches
    from embedwell_vision.images.several import prepare_ahead

    description = ModelDescription.read(folder, DEFAULT_OPTIONS)
    how: Any = description.patches or description.preprocessing

    def prepare(images: Sequence[bytes]) -> Any:
        files = [partial(bytes, image) for image in images]
        for prepared in prepare_ahead(files, how.pixels, MAX_PIXELS, threads):
            pixels = prepared()
            if description.patches:
                how.cut(pixels)
            else:
                normalised_patches(pixels.transpose(2, 0, 1), how.table())
        return _nothing(images)

    return prepare


def sentence_transformers(folder: Path, threads: int, dtype: str) -> Embed:
    """sentence-transformers on torch."""
    _import_torchvision()
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    model: Any = SentenceTransformer(
        str(folder), device="cpu", model_kwargs={"dtype": getattr(torch, dtype)}
    )
    return lambda images: model.encode(_opened(images))


def transformers_pixels(folder: Path, threads: int, dtype: str) -> Embed:
    """The processor of transformers, which sentence-transformers uses, too."""
    _import_torchvision()
    import torch

    torch.set_num_threads(threads)
    processor = _processor(folder)

    def prepare(images: Sequence[bytes]) -> Any:
        processor(images=_opened(images), return_tensors="pt")
        return _nothing(images)

    return prepare


def open_clip(folder: Path, threads: int, dtype: str) -> Embed:
    """OpenCLIP, with random weights of its own."""
    _import_torchvision()
    import open_clip
    import torch

    torch.set_num_threads(threads)
    model, _, transform = open_clip.create_model_and_transforms(SHAPES[folder.name].open_clip)
    model.eval()

    def embed(images: Sequence[bytes]) -> Any:
        with torch.inference_mode():
            pixels = torch.stack([transform(image) for image in _opened(images)])
            return model.encode_image(pixels).numpy()

    return embed


def open_clip_pixels(folder: Path, threads: int, dtype: str) -> Embed:
    """OpenCLIP's transform, by torchvision."""
    _import_torchvision()
    import open_clip
    import torch

    torch.set_num_threads(threads)
    _, _, transform = open_clip.create_model_and_transforms(SHAPES[folder.name].open_clip)

    def prepare(images: Sequence[bytes]) -> Any:
        torch.stack([transform(image) for image in _opened(images)])
        return _nothing(images)

    return prepare


def infinity(folder: Path, threads: int, dtype: str) -> Embed:
    """Infinity on torch, called as in its server."""
    import torch
    from infinity_emb.args import EngineArgs
    from infinity_emb.transformer.vision.torch_vision import TIMM

    torch.set_num_threads(threads)
    model: Any = TIMM(
        engine_args=EngineArgs(
            model_name_or_path=str(folder), engine="torch", device="cpu", bettertransformer=False
        )
    )
    return lambda images: model.encode_post(model.encode_core(model.encode_pre(_opened(images))))


def fastembed(folder: Path, threads: int, dtype: str) -> Embed:
    """fastembed on onnxruntime, with the model of its list that has this shape."""
    model = _fastembed(folder, threads)
    return lambda images: [*model.embed(_opened(images))]


def fastembed_pixels(folder: Path, threads: int, dtype: str) -> Embed:
    """fastembed's own processor."""
    processor = _fastembed(folder, threads).model.processor

    def prepare(images: Sequence[bytes]) -> Any:
        processor(_opened(images))
        return _nothing(images)

    return prepare


def _fastembed(folder: Path, threads: int) -> Any:
    from fastembed import ImageEmbedding

    return ImageEmbedding(
        "Qdrant/clip-ViT-B-32-vision", specific_model_path=str(exported(folder)), threads=threads
    )


def onnxruntime(folder: Path, threads: int, dtype: str) -> Embed:
    """onnxruntime, and the processor of transformers."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = threads
    model = exported(folder) / "model.onnx"
    session: Any = InferenceSession(model, options, providers=["CPUExecutionProvider"])
    processor = _processor(folder)

    def embed(images: Sequence[bytes]) -> Any:
        pixels = processor(images=_opened(images), return_tensors="np")["pixel_values"]
        return session.run(None, {"pixel_values": pixels})[0]

    return embed


def _opened(images: Sequence[bytes]) -> list[Any]:
    from PIL import Image

    return [Image.open(io.BytesIO(each)) for each in images]


def _processor(folder: Path) -> Any:
    import transformers

    kind: Any = transformers.AutoImageProcessor
    return kind.from_pretrained(folder)


def _nothing(images: Sequence[bytes]) -> list[list[float]]:
    return [[0.0]] * len(images)


def _import_torchvision() -> None:
    """Import torchvision, if it is installed, also with a torch without CUDA.

    The package index has torchvision for CUDA only. Without CUDA its operators cannot be loaded,
    and importing it fails unless they are declared. The preparation of images does not call them.
    """
    try:
        import torchvision
    except ModuleNotFoundError:
        return
    except RuntimeError:
        import torch

        kind: Any = torch.library.Library
        library = kind("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        import torchvision  # noqa: F401


_KEPT: list[Any] = []  # a deleted library takes its operators back

ENGINES = {
    each.__name__: each
    for each in (
        *(ours, sentence_transformers, open_clip, infinity, fastembed, onnxruntime),
        *(ours_pixels, transformers_pixels, open_clip_pixels, fastembed_pixels),
    )
}


def read(folder: Path) -> list[bytes]:
    """Read all images of a folder."""
    return [each.read_bytes() for each in sorted(folder.iterdir())]


if __name__ == "__main__":
    answer(ENGINES, read)
