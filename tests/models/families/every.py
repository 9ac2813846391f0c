"""One checkpoint of every family, with a tokenizer of few tokens."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from transformers import PreTrainedModel

from tests.models.families.checkpoint import Case, write
from tests.models.tiny import VOCABULARY, write_tokenizer

_TESTED = (
    *(
        "albert",
        "bert",
        "big_bird",
        "bloom",
        "clip",
        "deberta",
        "distilbert",
        "dpr",
        "electra",
        "ernie",
    ),
    *("embedding_gemma2", "esm", "eurobert", "lfm2", "longformer", "luke", "roformer"),
    *("gemma", "gpt2", "gpt_neo", "gpt_neox", "gptj", "gte", "jina_v3", "llama", "modernbert"),
    *("mpnet", "mpt", "nomic", "phi3", "qwen", "qwen3_vl", "roberta", "t5", "xlnet"),
)
_MODULES = [import_module(f"tests.models.families.test_{name}") for name in _TESTED]


def _first(module: ModuleType) -> list[Case]:
    """The first case of each family that a module tests."""
    found = {case.model_type: case for case in reversed(module.CASES)}
    sizes = {"vocab_size": len(VOCABULARY)}
    return [replace(case, sizes={**case.sizes, **sizes}) for case in found.values()]


EVERY = sorted((case for module in _MODULES for case in _first(module)), key=str)


def write_model(case: Case, folder: Path) -> PreTrainedModel:
    """Save a family's model and a tokenizer."""
    model = write(case, folder)
    write_tokenizer(folder)
    return model


TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]
