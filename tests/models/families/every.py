"""One checkpoint of every family, with a tokenizer of few tokens."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from transformers import PreTrainedModel, __version__

from tests.models.families.checkpoint import Case, write
from tests.models.tiny import VOCABULARY, write_tokenizer

_TESTED = {  # folders of tests, with the families whose models transformers writes
    "families": (
        *("bert", "deberta", "distilbert", "eurobert", "gemma", "gte"),
        *("jina_v3", "llama", "modernbert", "mpnet", "nomic", "qwen", "roberta", "t5"),
    ),
    "rare": (
        *("albert", "big_bird", "bloom", "dpr", "electra", "ernie", "esm", "gpt2", "gpt_neo"),
        *("gpt_neox", "gptj", "lfm2", "longformer", "luke", "m2m_100", "mpt", "phi3", "qwen3_5"),
        *("roformer", "xlnet", "xmod"),
    ),
    "vision.families": ("clip", "embedding_gemma2", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"),
}

OTHERS = {  # model types that none of these tests writes
    # Of images, too, whose tests have files around those of texts.
    *("clip", "metaclip_2", "siglip", "siglip2", "jina_clip", "embedding_gemma2", "gemma3"),
    *("mistral3", "qwen2_vl", "qwen2_5_vl", "qwen3_5", "qwen3_vl", "qwen3_vl_nemotron_embed"),
    *("colmodernvbert", "colpali", "colqwen2", "colqwen3", "ops_colqwen3", "idefics3"),
    # Which transformers lacks.
    *("minicpm", "cost_wise_gemma", "neobert", "nvembed", "llama_bidirec", "llama_nemotron_vl"),
    *("llama_nemotron_vl_rerank", "bidirectional_pplx_qwen3", "jina_embeddings_v5"),
    # Encoders of their own, and models that decide.
    *("canine", "funnel", "mobilebert", "t5gemma2", "doc2vec", "elmo", "laser2", "laser3"),
    *("laya", "GLiClass", "gliner2"),
}


def import_tests(
    name: str, import_module: Callable[[str], ModuleType] = import_module
) -> ModuleType | str:
    """Import the tests of a family; return why they cannot run if transformers lacks a class.

    name: of their module, such as "families.test_bert".
    """
    try:
        return import_module(f"tests.models.{name}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "transformers":
            raise
        return f"transformers {__version__}: {error.msg}"


_IMPORTED = {
    name: import_tests(f"{folder}.test_{name}")
    for folder, names in _TESTED.items()
    for name in names
}
_MODULES = [each for each in _IMPORTED.values() if isinstance(each, ModuleType)]
LACKING = {name: reason for name, reason in _IMPORTED.items() if isinstance(reason, str)}
"""Reasons why the tests of some families cannot run."""


def _first(module: ModuleType) -> list[Case]:
    """The first case of each family that a module tests."""
    found = {case.model_type: case for case in reversed(module.CASES)}
    sizes = {"vocab_size": len(VOCABULARY)}
    return [replace(case, sizes={**case.sizes, **sizes}) for case in found.values()]


EVERY = sorted((case for module in _MODULES for case in _first(module)), key=str)

every_family = pytest.mark.parametrize(
    "case",
    [
        *EVERY,
        *(
            pytest.param(None, id=name, marks=pytest.mark.skip(reason=reason))
            for name, reason in LACKING.items()
        ),
    ],
    ids=str,
)
"""Mark of a test that runs for one case of every family, and is skipped for those that lack."""


def write_model(case: Case, folder: Path) -> PreTrainedModel:
    """Save a family's model and a tokenizer."""
    model = write(case, folder)
    write_tokenizer(folder)
    return model


TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]
