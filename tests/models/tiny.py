"""A BERT of random weights so large that a wrong activation, bias or norm shows."""

import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from tests.models.random_weights import randomize, without_weights

SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
LETTERS = string.ascii_lowercase + string.digits
COMMON = "the of to and or a in any you for license work that this copyright with such not by is"
PIECES = [*SPECIAL, *LETTERS, *("##" + letter for letter in LETTERS), *".,;:()-'"]
VOCABULARY = {piece: i for i, piece in enumerate(dict.fromkeys([*PIECES, *COMMON.split()]))}


def write_bert(folder: Path, **config: Any) -> BertModel:
    """Save model and tokenizer to a folder, and return the reference model."""
    model = reference(**config)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model


def reference(**config: Any) -> BertModel:
    """A BERT in which every parameter is random and the norms' eps is large enough to show."""
    sizes = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 80,
        "max_position_embeddings": 64,
        "layer_norm_eps": 0.05,
    }
    options = BertConfig(**{**sizes, **config})
    model: BertModel = without_weights(lambda: BertModel(options))
    model.train(False)
    randomize(model)
    return model


def write_tokenizer(folder: Path) -> None:
    """Save a WordPiece tokenizer of letters and common words, as BERT's is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _tokenizer_files().items():
        (folder / name).write_bytes(content)


@cache
def _tokenizer_files() -> Mapping[str, bytes]:
    """The files of the tokenizer, which takes longer to save than to copy."""
    rust = Tokenizer(models.WordPiece(VOCABULARY, unk_token="[UNK]"))
    rust.normalizer = normalizers.BertNormalizer(lowercase=False)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    rust.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(
        tokenizer_object=rust,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def with_token(folder: Path, token: str) -> Path:
    """The same model with one more token, which its table lacks."""
    file = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(file)
    rust.add_tokens([token])
    rust.save(file)
    return folder


def unframed(folder: Path) -> Path:
    """The same model without special tokens around a text; an empty text then has no tokens."""
    file = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(file)
    rust.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    rust.save(file)
    return folder


def write_static_model(tmp_path: Path) -> Path:
    """Write the table, of random vectors, to a folder in another; return it."""
    folder = tmp_path / "static"
    folder.mkdir()
    table = np.random.default_rng(2).normal(size=(len(VOCABULARY), 12)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    write_tokenizer(folder)
    (folder / "config.json").write_text('{"model_type": "model2vec"}')
    return folder


def panicking(folder: Path, token: str) -> Path:
    """A tokenizer that panics when this token is before two spaces: both claim them."""
    write_tokenizer(folder)
    path = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(path)
    rust.add_tokens([AddedToken(token, rstrip=True, normalized=False)])
    rust.add_tokens([AddedToken(" ", lstrip=True, normalized=False)])
    rust.save(path)
    return folder
