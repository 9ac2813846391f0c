"""A GLiNER2 of random weights, written by the authors' code."""

import warnings
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer, DebertaV2Config

from embedwell_decide.gliner_options import MARKERS
from tests.models.gliclass_model import ENCODERS
from tests.models.random_weights import randomize
from tests.models.tiny import write_tokenizer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from gliner2 import AutoExtractor
    from gliner2.configuration import ExtractorConfig
    from gliner2.models.boundary.model import BoundaryExtractorModel
    from gliner2.models.span.model import SpanExtractorModel
    from gliner2.processing.word_splitter import resolve_word_splitter as word_splitter

__all__ = ["AutoExtractor", "word_splitter"]  # for the tests

_MODELS: dict[str, Any] = {"span": SpanExtractorModel, "boundary": BoundaryExtractorModel}


def write_gliner(folder: Path, architecture: str = "span", **options: Any) -> Path:
    """Write a checkpoint. options: of config.json, in place of the defaults."""
    write_tokenizer(folder)
    file = str(folder / "tokenizer.json")
    rust = Tokenizer.from_file(file)
    rust.add_special_tokens([AddedToken(name, normalized=False) for name in MARKERS])
    rust.save(file)
    config = ExtractorConfig(model_name="unused", architecture=architecture, **options)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = DebertaV2Config(**ENCODERS["deberta-v2"])
    model = _MODELS[architecture](config, encoder_config=encoder, tokenizer=tokenizer)
    model.train(False)
    randomize(model)
    model.save_pretrained(folder)
    return folder
