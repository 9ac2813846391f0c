"""Small GGUF files in llama.cpp's published layout, written without its package."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

Numbers = npt.NDArray[Any]
_TYPES = {"uint8": 8, "uint16": 30}  # of numpy -> of a file; float32 is 0
_BERT = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def write(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Numbers]) -> Path:
    """Write a file, with bytes as blocks of Q8_0 and uint16 as bfloat16; return its path."""
    header = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    header += [_string(key) + _value(value) for key, value in metadata.items()]
    data, size = list[bytes](), 0
    for name, numbers in tensors.items():
        data.append(b"\0" * (-size % 32))
        size += len(data[-1])
        is_quantized = numbers.dtype == np.uint8
        shape = list(numbers.shape)
        shape[-1] = shape[-1] // 34 * 32 if is_quantized else shape[-1]
        axes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        kind = _TYPES.get(str(numbers.dtype), 0)
        header.append(_string(name) + axes + struct.pack("<IQ", kind, size))
        data.append(numbers.tobytes())
        size += numbers.nbytes
    start = b"".join(header)
    path.write_bytes(b"".join([start, b"\0" * (-len(start) % 32), *data]))
    return path


def quantize(numbers: Numbers) -> Numbers:
    """Return the blocks of Q8_0 of a matrix (N, D): (N, D / 32 * 34) bytes."""
    blocks = numbers.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype("<f2")
    integers = np.rint(blocks / scales.astype(np.float32)).astype(np.int8)
    parts = [scales.view(np.uint8), integers.view(np.uint8)]
    return np.concatenate(parts, axis=1).reshape(len(numbers), -1)


def bfloat16(numbers: Numbers) -> Numbers:
    """Return the bits of float32 numbers as bfloat16, rounded to zero."""
    return (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)


def write_bert(folder: Path, path: Path, quantized: bool = False) -> Path:
    """Write the BERT with WordPiece of a folder; return the path."""
    return write(path, *_bert(folder, quantized))


def write_parts(folder: Path, target: Path) -> list[Path]:
    """Write the BERT of a folder in three parts, the first without tensors; return their paths."""
    metadata, tensors = _bert(folder)
    names = [*tensors]
    parts = [[], names[: len(names) // 2], names[len(names) // 2 :]]
    return [
        write(
            target / f"a-{number + 1:05}-of-00003.gguf",
            {"split.no": number, "split.count": 3, **({} if number else metadata)},
            {name: tensors[name] for name in part},
        )
        for number, part in enumerate(parts)
    ]


def _bert(folder: Path, quantized: bool = False) -> tuple[dict[str, Any], dict[str, Numbers]]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tensors = {_bert_name(n): t for n, t in load_file(folder / "model.safetensors").items()}
    kept = {name: numbers for name, numbers in tensors.items() if name}
    for name, numbers in kept.items():
        if quantized and name.startswith("blk.") and numbers.ndim == 2:
            kept[name] = quantize(numbers)
    sizes = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.layer_norm_epsilon": float(config["layer_norm_eps"]),
        "pooling_type": 1,
    }
    metadata = {"general.architecture": "bert"} | {f"bert.{k}": v for k, v in sizes.items()}
    return metadata | _word_pieces(folder), kept


def _bert_name(name: str) -> str:
    stem, _, ending = name.removeprefix("bert.").rpartition(".")
    if not stem.startswith("encoder.layer."):
        return f"{_BERT[stem]}.{ending}" if stem in _BERT else ""
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{_BERT[rest]}.{ending}"


def _word_pieces(folder: Path) -> dict[str, Any]:
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = tokenizer["model"]["vocab"]
    tokens = [
        token if token in special else token[2:] if token.startswith("##") else f"▁{token}"
        for token in sorted(ids, key=ids.__getitem__)
    ]
    kinds = [1] * len(tokens)
    for id in special.values():
        kinds[id] = 3
    values = {
        "model": "bert",
        "tokens": tokens,
        "token_type": kinds,
        "bos_token_id": special["[CLS]"],
        "unknown_token_id": special["[UNK]"],
        "seperator_token_id": special["[SEP]"],
        "padding_token_id": special["[PAD]"],
    }
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(value: Any) -> bytes:
    if isinstance(value, list):
        parts = [_value(part) for part in value]
        return (
            struct.pack("<I", 9)
            + parts[0][:4]
            + struct.pack("<Q", len(parts))
            + b"".join(part[4:] for part in parts)
        )
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    code, kind = ("f", 6) if isinstance(value, float) else ("i", 5)
    return struct.pack(f"<I{code}", kind, value)
