"""Jina embeddings v5 for texts: a Qwen3 (small) or a EuroBERT (nano), with adapters by task."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import Adapters, ModelSpec
from embedwell_models.families import eurobert, qwen
from embedwell_models.families.family import DocsRow, Family


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Jina v5; `is_decoder` is false in the files of those with EuroBERT."""
    if options.get("is_decoder", True):
        spec = qwen.of_qwen3(options, causal=True)
    else:
        spec = eurobert.read(options)
    names: list[str] = options["task_names"]
    adapters = Adapters(names=tuple(names), scale=1.0, folder="adapters")
    return replace(spec, adapters=adapters)


FAMILIES = (
    Family(
        model_types=("jina_embeddings_v5",),
        read=read,
        published_pooling="lasttoken",
        replaced_code=("JinaEmbeddingsV5Model",),
        tokenizer_override="nothing",
        row=DocsRow(
            "Jina v5, [by task](model-files.md#adapters)",
            "jina-embeddings-v5-text-small, -nano",
            positions="rotary",
            layers="as Qwen 3 (small), as EuroBERT (nano)",
        ),
    ),
)
