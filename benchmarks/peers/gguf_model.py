"""Conversion of a BERT encoder to GGUF, the format of llama.cpp, in float32 or q8_0.

llama.cpp's own converter is not in a package, and needs torch and transformers. The package `gguf`
of the same project writes the file, names the tensors and quantises them.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.protocol import Floats, Refused, conversion_folder

PRECISIONS = ("float32", "q8_0")
_WORD_START = "▁"  # llama.cpp marks the start of a word, WordPiece the continuation
_CONTINUATION = "##"
_WITHOUT_PLACE = ("pooler.", "cls.", "embeddings.position_ids")  # parts that a vector does not need
_FLOAT32 = ("position_embd.weight", "token_types.weight")  # llama.cpp adds these tensors in float32
_SPECIAL = {"bos": "[CLS]", "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]"}


def gguf_file(cache: str, folder: str, precision: str) -> Path:
    """Return the GGUF file of a model, which is converted on first use; raises Refused."""
    path = conversion_folder(cache, folder, "gguf", version("gguf")) / f"{precision}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        _write(Path(folder), unfinished, precision)
        unfinished.rename(path)
    return path


def check(
    config: Mapping[str, Any], pooling: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> None:
    """Raise Refused unless the model is a lower-case WordPiece BERT with mean pooling."""
    wrong = {
        "model_type": config.get("model_type") != "bert",
        "hidden_act": config.get("hidden_act") != "gelu",
        "pooling": not pooling.get("pooling_mode_mean_tokens"),
        "tokenizer": tokenizer["model"]["type"] != "WordPiece",
        "normalizer": not (tokenizer["normalizer"] or {}).get("lowercase"),
    }
    if names := ", ".join(name for name, is_wrong in wrong.items() if is_wrong):
        raise Refused(f"the converter to GGUF does not know this {names}")


def pieces(vocabulary: Mapping[str, int], special: Iterable[str]) -> list[str]:
    """Return the tokens in the order of their ids, in llama.cpp's spelling."""
    kept = set(special)

    def spell(token: str) -> str:
        if token in kept:
            return token
        if token.startswith(_CONTINUATION):
            return token.removeprefix(_CONTINUATION)
        return _WORD_START + token

    return [spell(token) for token in sorted(vocabulary, key=vocabulary.__getitem__)]


def encoder_tensors(tensors: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the tensors of the encoder, without the name prefix of a task checkpoint."""
    names = {name: name.removeprefix("bert.") for name in tensors}
    return {
        short: tensors[name]
        for name, short in names.items()
        if not short.startswith(_WITHOUT_PLACE)
    }


def is_quantized(name: str, tensor: Floats, precision: str) -> bool:
    """Whether q8_0 stores this tensor in eight bits, as in llama.cpp's own converter."""
    return precision == "q8_0" and tensor.ndim == 2 and name not in _FLOAT32


def _write(folder: Path, path: Path, precision: str) -> None:
    import gguf
    from safetensors.numpy import load_file

    config, pooling, tokenizer = (
        _read(folder / name) for name in ("config.json", "1_Pooling/config.json", "tokenizer.json")
    )
    check(config, pooling, tokenizer)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.BERT])
    writer.add_name(folder.name)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    _add_shape(writer, config)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    _add_vocabulary(writer, tokenizer)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for long_name, tensor in encoder_tensors(load_file(folder / "model.safetensors")).items():
        name = names.get_name(long_name, (".weight", ".bias"))
        assert name is not None, long_name
        values = tensor.astype(np.float32)
        if is_quantized(name, values, precision):
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _read(path: Path) -> Any:
    if not path.exists():
        raise Refused(f"the converter to GGUF needs {path}")
    return json.loads(path.read_text(encoding="utf-8"))


def _add_shape(writer: Any, config: Mapping[str, Any]) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_causal_attention(False)


def _add_vocabulary(writer: Any, tokenizer: Mapping[str, Any]) -> None:
    import gguf

    vocabulary = tokenizer["model"]["vocab"]
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    kinds = [gguf.TokenType.NORMAL] * len(vocabulary)
    for number in special.values():
        kinds[number] = gguf.TokenType.CONTROL
    writer.add_tokenizer_model("bert")
    writer.add_token_list(pieces(vocabulary, special))
    writer.add_token_types(kinds)
    for role, token in _SPECIAL.items():
        getattr(writer, f"add_{role}_token_id")(special[token])
