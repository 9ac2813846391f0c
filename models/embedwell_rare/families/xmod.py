"""X-MOD (Pfeiffer et al. 2022, arXiv 2205.06266): a RoBERTa with adapters by language."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import Adapters, ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import heads, roberta
from embedwell_models.families.family import DocsRow, Family

_MODULES = "output.adapter_modules"
_ADAPTER = f"encoder.layer.{{}}.{_MODULES}"
ADAPTER_TENSORS = {
    **affine(f"{_ADAPTER}.dense1", "layers.{}.adapter_up"),
    **affine(f"{_ADAPTER}.dense2", "layers.{}.adapter_down"),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an X-MOD with the adapters of its default language, if it has one."""
    options.require("pre_norm", False)
    options.require("adapter_layer_norm", False)
    options.require("adapter_reuse_layer_norm", True)
    options.require("ln_before_adapter", True)
    spec = roberta.read(options)
    size = int(spec.config.hidden_size // options.get("adapter_reduction_factor", 2))
    layers = tuple(
        replace(layer, feed_forward=replace(layer.feed_forward, adapter=size))
        for layer in spec.config.layers
    )
    return replace(
        spec,
        config=replace(spec.config, layers=layers),
        tensors={**spec.tensors, **ADAPTER_TENSORS},
        unused=(*spec.unused, f"{_ADAPTER}.*"),
        adapters=_adapters(options),
    )


def _adapters(options: JsonConfig) -> Adapters:
    languages: list[str] = options.get("languages", ["en_XX"])
    default = options.get("default_language", "")
    if default and default not in languages:
        raise options.unsupported("default_language", default, f"the languages {languages}")
    chosen = languages.index(default) if default else None
    return Adapters(names=tuple(languages), chosen=chosen, modules=_MODULES)


FAMILIES = (
    Family(
        model_types=("xmod",),
        read=read,
        classification_head=roberta.HEAD,
        masked_lm_head=heads.ROBERTA_MASKED_LM,
        row=DocsRow(
            "X-MOD, [by language](model-files.md#adapters)",
            "sentence-swissbert, swissbert, xmod-base",
            positions="learned, with offset",
            layers="post-norm, an adapter after each",
            torch="yes",
        ),
    ),
)
