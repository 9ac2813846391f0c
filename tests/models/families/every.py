"""One checkpoint of every family, with a tokenizer of few tokens."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

from transformers import PreTrainedModel

from tests.models.families import (
    test_albert,
    test_bert,
    test_bloom,
    test_clip,
    test_deberta,
    test_distilbert,
    test_electra,
    test_ernie,
    test_eurobert,
    test_gemma,
    test_gpt2,
    test_gpt_neox,
    test_gptj,
    test_gte,
    test_jina_v3,
    test_llama,
    test_modernbert,
    test_mpnet,
    test_mpt,
    test_nomic,
    test_qwen,
    test_roberta,
    test_t5,
    test_xlnet,
)
from tests.models.families.checkpoint import Case, write
from tests.models.tiny import VOCABULARY, write_tokenizer

_MODULES = (
    test_albert,
    test_bert,
    test_bloom,
    test_clip,
    test_deberta,
    test_distilbert,
    test_electra,
    test_ernie,
    test_eurobert,
    test_gemma,
    test_gpt2,
    test_gpt_neox,
    test_gptj,
    test_gte,
    test_jina_v3,
    test_llama,
    test_modernbert,
    test_mpnet,
    test_mpt,
    test_nomic,
    test_qwen,
    test_roberta,
    test_t5,
    test_xlnet,
)


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
