"""LASER 2 and 3 of random weights as fairseq writes them, and SentencePiece files next to them."""

import argparse
import io
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import nn

from embedwell_models.precision.references import SENTENCES
from tests.models import kinds, raw

WIDTH, CELLS, LAYERS, HEADS = 24, 13, 3, 4
MISSING = 7  # every so many pieces, one is not in fairseq's dictionary


def write_laser2(path: Path) -> nn.LSTM:
    """Write laser2.pt and laser2.spm; return the LSTM."""
    dictionary = _dictionary(_write_pieces(path.with_suffix(".spm")))
    lstm = nn.LSTM(WIDTH, CELLS, LAYERS, bidirectional=True)
    table = nn.Embedding(len(dictionary) + 9, WIDTH)
    _randomize(lstm, table)
    params = {"num_embeddings": len(table.weight), "padding_idx": 1, "embed_dim": WIDTH}
    params |= {"hidden_size": CELLS, "num_layers": LAYERS, "bidirectional": True}
    model = {f"lstm.{name}": part for name, part in lstm.state_dict().items()}
    model |= {"embed_tokens.weight": table.weight.data}
    torch.save({"params": params, "model": model, "dictionary": dictionary}, path)
    return lstm


def write_laser3(path: Path, **options: Any) -> None:
    """Write laser3-LANGUAGE.v1.pt and its .spm and .cvocab. options: of the model."""
    dictionary = _dictionary(_write_pieces(path.with_suffix(".spm")))
    lines = [f"{piece} {1000 - id}" for piece, id in dictionary.items() if id > 3]
    path.with_suffix(".cvocab").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings: dict[str, Any] = {
        "encoder_embed_dim": WIDTH,
        "encoder_ffn_embed_dim": 40,
        "encoder_layers": LAYERS,
        "encoder_attention_heads": HEADS,
        "encoder_normalize_before": True,
        "max_source_positions": 64,
        "sentemb_criterion": "cls",
        "prepend_bos": True,
        "left_pad_source": False,
        **options,
    }
    layers = [
        nn.TransformerEncoderLayer(WIDTH, HEADS, 40) for _ in range(settings["encoder_layers"])
    ]
    norm, table = nn.LayerNorm(WIDTH), nn.Embedding(len(dictionary), WIDTH)
    _randomize(norm, table, *layers)
    model = {"encoder.version": torch.ones(1), "decoder.embed_tokens.weight": torch.ones(2, 2)}
    model |= {"encoder.embed_positions._float_tensor": torch.ones(1)}
    model |= {"encoder.embed_tokens.weight": table.weight.data}
    for index, layer in enumerate(layers):
        model |= {f"encoder.layers.{index}.{name}": part for name, part in _fairseq(layer).items()}
    if settings["encoder_normalize_before"]:
        model |= {f"encoder.layer_norm.{name}": part for name, part in norm.state_dict().items()}
    torch.save({"cfg": {"model": argparse.Namespace(**settings)}, "model": model}, path)


def _fairseq(layer: nn.TransformerEncoderLayer) -> dict[str, torch.Tensor]:
    renamed = {"linear1": "fc1", "linear2": "fc2", "norm1": "self_attn_layer_norm"}
    renamed |= {"norm2": "final_layer_norm"}
    parts: dict[str, torch.Tensor] = {}
    for name, part in layer.state_dict().items():
        first, _, rest = name.partition(".")
        if rest.startswith("in_proj_"):
            kind = rest.removeprefix("in_proj_")
            thirds = zip("qkv", part.chunk(3), strict=True)
            parts |= {f"self_attn.{letter}_proj.{kind}": third for letter, third in thirds}
        else:
            parts[f"{renamed.get(first, first)}.{rest}"] = part
    return parts


def _randomize(*modules: nn.Module) -> None:
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in (part for module in modules for part in module.parameters()):
            parameter.normal_(0.0, 0.3, generator=noise)


def _write_pieces(path: Path) -> list[str]:
    file = io.BytesIO()
    train: Any = sentencepiece.SentencePieceTrainer.train
    lines = [*kinds.PROSE.lower().splitlines(), *(text.lower() for text in SENTENCES)]
    train(
        sentence_iterator=iter([*lines, *raw.COMPOSED * 20]),
        model_writer=file,
        vocab_size=300,
        character_coverage=1.0,
        minloglevel=2,
    )
    path.write_bytes(file.getvalue())
    read: Any = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    return [read.id_to_piece(id) for id in range(read.get_piece_size())]


def _dictionary(pieces: list[str]) -> dict[str, int]:
    # In another order than SentencePiece has, as fairseq's is by frequency.
    known = [piece for index, piece in enumerate(pieces[3:]) if index % MISSING]
    names = ["<s>", "<pad>", "</s>", "<unk>", *reversed(known)]
    return {name: id for id, name in enumerate(names)}
