"""Conversion of fairseq's files of LASER 2 and 3.

The published SentencePiece files must be next to laser2.pt or laser3-LANGUAGE.v1.pt, under the same
name or the name of laser2: .spm, and for LASER 3 also .cvocab, a vocabulary with a piece in each
line. tokenizer.json has Moses' normalisation before SentencePiece's: non-printing characters become
spaces, punctuation is normalised as by Moses for English (normalize-punctuation.perl of release 4),
and letters become lowercase.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from torch import Tensor

from embedwell_classic.convert import weights
from embedwell_classic.convert.module_files import check_finite, encoder_folder, write_json
from embedwell_classic.convert.sentencepiece_model import VARIANTS, SentencePieceModel
from embedwell_classic.families import laser
from embedwell_models.errors import ModelError
from embedwell_models.hub.conversion import INSTALL, extra_installed
from embedwell_models.precision.references import SENTENCES

SUFFIX = ".pt"
_SPECIAL = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}  # in all fairseq dictionaries
_TRAINED_LENGTH = 512  # tokens; an LSTM has no limit, but reads them one by one
_POOLINGS = {"cls": "cls", "maxpool": "max"}  # sentemb_criterion -> our name
_LETTER, _NO_BREAK = "[a-zA-Z]", "\u00a0"
_IGNORED = r"[\p{Mn}'.:]*"  # characters that may stand inside words
# Pattern -> replacement, in order. Lookarounds replace the groups of Moses' patterns.
_SUBSTITUTIONS = (
    (r"\p{C}", " "),
    (r"\(", " ("),
    (r"\)", ") "),
    (" +", " "),
    (r"(?<=\)) (?=[.!:?;,])", ""),
    (r"\( ", "("),
    (r" \)", ")"),
    (r"(?<=\d) (?=%)", ""),
    (" (?=[:;])", ""),
    ("`", "'"),
    ("''", ' " '),
    ("[„“”]", '"'),
    ("–", "-"),
    ("—", " - "),
    (" +", " "),
    ("´", "'"),
    (f"(?<={_LETTER})[‘’](?={_LETTER})", "'"),
    ("[‘‚’]", '"'),
    ("''", '"'),
    ("…", "..."),
    (f"{_NO_BREAK}«{_NO_BREAK}", ' "'),
    (f"«{_NO_BREAK}|«", '"'),
    (f"{_NO_BREAK}»{_NO_BREAK}", '" '),
    (f"{_NO_BREAK}»|»", '"'),
    (f"(?<=nº){_NO_BREAK}(?!%)|{_NO_BREAK}(?=ºC|cm)|(?<=,){_NO_BREAK}(?![%:?!;])", " "),
    (f"{_NO_BREAK}(?=[%:?!;])", ""),
    (" +", " "),
    # A quotation mark before a comma or full stop moves behind it: first added, then removed.
    (r'"[,.]+\K', '"'),
    (r'"(?=[,.]+")', ""),
    (rf"(?<=\d){_NO_BREAK}(?=\d)", "."),
    (rf"\p{{L}}{_IGNORED}\KΣ(?!{_IGNORED}\p{{L}})", "ς"),  # Unicode's rule for the final sigma
)
_UNIGRAM, _CONTROL = 1, 3  # values in sentencepiece_model.proto
_NORMALIZER_OPTIONS = ("add_dummy_prefix", "escape_whitespaces", "remove_extra_whitespaces")


def convert_laser(source: Path, target: Path) -> None:
    """Write a LASER folder that the server can read; after an error, no folder is left.

    Raises ModelError for files that are missing or cannot be read, and if `target` exists.
    """
    if not extra_installed():
        raise ModelError(f"{source}: to read its SentencePiece file, {INSTALL}")
    state = weights.read_pickle(source, [argparse.Namespace])
    convert = _convert_lstm if "params" in state else _convert_transformer
    with encoder_folder(source, target, "is not a checkpoint of LASER 2 or 3") as scratch:
        check_finite(source, state["model"])
        convert(source, state, scratch)


def _convert_lstm(source: Path, state: Mapping[str, Any], folder: Path) -> None:
    params, tensors = state["params"], state["model"]
    if not params["bidirectional"]:
        raise ModelError(f"{source}: an LSTM of one direction is not supported")
    pieces = _write_tokenizer(source, folder, "$A </s>")
    layers = range(params["num_layers"])
    parts = [part for index in layers for part in _lstm_layer(tensors, index)]
    table = _table_rows(tensors["embed_tokens.weight"], state["dictionary"], pieces)
    weights.write({"embed_tokens.weight": table, **dict(parts)}, folder / "model.safetensors")
    config = {
        "model_type": laser.LSTM,
        "vocab_size": len(pieces),
        "embedding_size": params["embed_dim"],
        "hidden_size": params["hidden_size"],
        "num_hidden_layers": len(layers),
        "max_position_embeddings": _TRAINED_LENGTH,
    }
    write_json(folder / "config.json", config)
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "max"})


def _lstm_layer(tensors: Mapping[str, Tensor], index: int) -> list[tuple[str, Tensor]]:
    parts = []
    for direction, ending in (("forward", ""), ("backward", "_reverse")):
        theirs, ours = f"l{index}{ending}", f"lstm.{index}.{direction}"
        bias = tensors[f"lstm.bias_ih_{theirs}"] + tensors[f"lstm.bias_hh_{theirs}"]
        parts += [
            (f"{ours}.input.weight", tensors[f"lstm.weight_ih_{theirs}"]),
            (f"{ours}.input.bias", bias),
            (f"{ours}.recurrent.weight", tensors[f"lstm.weight_hh_{theirs}"]),
        ]
    return parts


def _convert_transformer(source: Path, state: Mapping[str, Any], folder: Path) -> None:
    options = vars(state["cfg"]["model"])
    tensors = {name.removeprefix("encoder."): part for name, part in state["model"].items()}
    tensors = {
        name: part
        for name, part in tensors.items()
        if name.startswith(("embed_", "layer_norm.", "layernorm_", "layers."))
        and not name.endswith("_float_tensor")
    }
    pieces = _write_tokenizer(
        _sibling(source, ".spm"), folder, "<s> $A </s>" if options["prepend_bos"] else "$A </s>"
    )
    dictionary = _read_dictionary(_sibling(source, ".cvocab"), len(tensors["embed_tokens.weight"]))
    table = _table_rows(tensors["embed_tokens.weight"], dictionary, pieces)
    positions = _positions(tensors, options, table.shape[1])
    tensors |= {"embed_tokens.weight": table, "embed_positions.weight": positions}
    weights.write(tensors, folder / "model.safetensors")
    config = {
        "model_type": laser.TRANSFORMER,
        "vocab_size": len(pieces),
        "hidden_size": options["encoder_embed_dim"],
        "intermediate_size": options["encoder_ffn_embed_dim"],
        "num_hidden_layers": options["encoder_layers"],
        "num_attention_heads": options["encoder_attention_heads"],
        "max_position_embeddings": len(positions),
        "activation_function": options.get("activation_fn", "relu"),
        "scale_embedding": not options.get("no_scale_embedding", False),
        "normalize_before": options.get("encoder_normalize_before", False),
        "final_norm": "layer_norm.weight" in tensors,
        "embedding_norm": "layernorm_embedding.weight" in tensors,
    }
    write_json(folder / "config.json", config)
    mode = _POOLINGS[options["sentemb_criterion"]]
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": mode})


def _sibling(source: Path, suffix: str) -> Path:
    names = (source.stem, "laser2")
    paths = [source.with_name(name + suffix) for name in names]
    for path in paths:
        if path.is_file():
            return path
    raise ModelError(f"{source}: neither {' nor '.join(path.name for path in paths)} is next to it")


def _read_dictionary(path: Path, rows: int) -> dict[str, int]:
    """Read the row of each piece. rows: of the table, which may have one for <mask>."""
    dictionary: dict[str, int] = {}
    # Not str.splitlines, which also splits at characters that a piece may have.
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        piece, _, count = line.rpartition(" ")
        if not piece or not count.isdigit():
            raise ModelError(f"{path}: line {number} is not a piece and its count")
        dictionary[piece] = number - 1 + len(_SPECIAL)
    if rows - len(lines) - len(_SPECIAL) not in (0, 1):
        raise ModelError(
            f"{path} has {len(lines)} pieces, but the table has {rows} rows, {len(_SPECIAL)} of "
            "them for special tokens: fetch both files again"
        )
    return dictionary


def _table_rows(table: Tensor, dictionary: Mapping[str, int], pieces: Sequence[str]) -> Tensor:
    # Rows in the order of SentencePiece's pieces; an unknown piece gets the row of <unk>.
    ids = {**dictionary, **_SPECIAL}
    return table[torch.tensor([ids.get(piece, ids["<unk>"]) for piece in pieces])]


def _positions(tensors: Mapping[str, Tensor], options: Mapping[str, Any], width: int) -> Tensor:
    # Rows from position 0 on, because fairseq counts from the padding token's id plus 1.
    first = _SPECIAL["<pad>"] + 1
    if (table := tensors.get("embed_positions.weight")) is not None:
        return table[first:]
    positions = torch.arange(first, first + options["max_source_positions"])
    half = width // 2
    frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    angles = positions[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _write_tokenizer(source: Path, target: Path, template: str) -> list[str]:
    """Write tokenizer.json to a folder; return the pieces in the order of their ids.

    source: the checkpoint. template: $A for the text, and the pieces around it.

    Raises ModelError for a file that cannot be read, for a model other than unigram, and if
    tokenizer.json would split texts differently.
    """
    path = _sibling(source, ".spm")
    model = SentencePieceModel.read(path)
    proto = model.proto
    options = [getattr(proto.normalizer_spec, name) for name in _NORMALIZER_OPTIONS]
    if proto.trainer_spec.model_type != _UNIGRAM or not all(options):
        raise ModelError(
            f"{path}: only unigram models with {', '.join(_NORMALIZER_OPTIONS)} are supported"
        )
    rust = _rust_tokenizer(model)
    _refuse_other_splits(path, model, rust)
    pieces = [piece.piece for piece in proto.pieces]
    around = [(name, pieces.index(name)) for name in template.split() if name != "$A"]
    rust.post_processor = processors.TemplateProcessing(single=template, special_tokens=around)
    rust.save(str(target / "tokenizer.json"))
    return pieces


def _rust_tokenizer(model: SentencePieceModel) -> Tokenizer:
    proto = model.proto
    # SentencePiece never matches a control piece. The lowest score makes a match unlikely here.
    lowest = min(piece.score for piece in proto.pieces)
    scores = [lowest if piece.type == _CONTROL else piece.score for piece in proto.pieces]
    pieces = [piece.piece for piece in proto.pieces]
    rust = Tokenizer(Unigram([*zip(pieces, scores, strict=True)], unk_id=proto.trainer_spec.unk_id))
    spaces = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    steps = [*normalizer_steps(), *model.character_steps(), *spaces]
    rust.normalizer = normalizers.Sequence(steps)
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    return rust


def _refuse_other_splits(path: Path, model: SentencePieceModel, rust: Tokenizer) -> None:
    before = normalizers.Sequence(normalizer_steps())
    for text in (*SENTENCES, *chain.from_iterable(VARIANTS.values())):
        prepared = before.normalize_str(text)
        if rust.encode(text).ids != model.processor.encode(prepared):
            pieces = model.pieces(prepared)
            raise ModelError(f"{path}: tokenizer.json would not split {text!r} into {pieces}")


def normalizer_steps() -> list[normalizers.Normalizer]:
    """Return the normalisation steps that precede SentencePiece's own steps."""
    steps = [normalizers.Replace(Regex(pattern), by) for pattern, by in _SUBSTITUTIONS]
    return [*steps, normalizers.Strip(), normalizers.Lowercase()]
