"""modules.json of sentence-transformers: the modules of a model in order, without weights.

A Router has other modules for queries than for documents, which router_config.json lists. Keys of
sentence-transformers are known if they are read, or change no vector; those of a later version may
change vectors, and are refused, as are weights that are not plain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from embedwell_models.checkpoint import formats
from embedwell_models.config.json_config import JsonConfig, read_json
from embedwell_models.errors import ModelError
from embedwell_models.model_files.card import has_modules, read_card
from embedwell_models.model_files.transformer import options_file
from embedwell_models.model_files.vector_modules import (
    ACTIVATIONS,
    Dense,
    LayerNorm,
    Module,
    Normalize,
    TanhInt8,
    WithoutWeights,
)

ROUTER = "Router"
ROUTER_FILE = "router_config.json"
QUERY, DOCUMENT = "query", "document"
STATIC = "StaticEmbedding"
WORDS = "WordEmbeddings"
WORD_WEIGHTS = "WordWeights"
CLIP = "CLIPModel"
IMAGE_ENCODER = "image_encoder"
"""Folder of the image encoder of another model, inside the folder of a model of texts."""
LAYER_WEIGHTS = "WeightedLayerPooling"
LOGIT_SCORE = "LogitScore"
ENCODERS = ("Transformer", STATIC, CLIP, WORDS)
TABLES = (STATIC, WORDS)
"""Kinds of encoders that are a table of vectors without layers."""
SENTENCE, TOKENS = "sentence_embedding", "token_embeddings"
"""Kind of a module's input and output: the vector of a text, or the vectors of its tokens."""

SPLADE_POOLING = "SpladePooling"
QUERY_WEIGHTS = "SparseStaticEmbedding"
"""Kind of the only module for queries of a sparse model without an encoder for them."""
_ROUTER_PARAMETERS = {"default_route", "allow_empty_key", "route_mappings"}
_TASK_ROUTES = {"retrieval.query": QUERY, "retrieval.passage": DOCUMENT}
"""Jina's tasks -> routes, whose modules differ in some models."""
_POOLINGS = {"Transformer": ("Pooling", SPLADE_POOLING), WORDS: ("Pooling",)}
_KALM = "KaLMCrossEncoderModule"
"""Class of remote code that reads pairs with an encoder and a decoder."""
_FORMER_NAMES = {
    **{"MLMTransformer": "Transformer", "MultiModalTransformer": "Transformer"},
    "Asym": ROUTER,
    _KALM: "Transformer",
}
_PACKAGE = "sentence_transformers."
_ALIASES = {  # classes of remote code and of another package that this package implements
    "pylate.models.Dense.Dense": "sentence_transformers.base.modules.dense.Dense",
    "st_quantize.FlexibleQuantizer": "sentence_transformers.FlexibleQuantizer",
}

_CUSTOM = {
    "custom_st.Transformer",  # chooses the adapters of Jina v3
    "custom_st.MultiModalTransformer",  # puts texts and images of GME into its format
}


@dataclass(frozen=True)
class Routes:
    """The modules of a Router. modules: by route, the class and path of each module.

    default: the route of a text without a task.
    """

    modules: Mapping[str, Sequence[tuple[str, str]]]
    default: str

    @property
    def differ(self) -> bool:
        """Whether queries have other modules than documents."""
        return self.modules[QUERY] != self.modules[DOCUMENT]


@dataclass(frozen=True)
class ModuleEntry:
    """An entry of modules.json. path: the module's folder, relative to the model's.

    custom: whether the module is remote code of the model.
    """

    kind: str
    path: str
    custom: bool = False


def read_entries(folder: Path, route: str = DOCUMENT) -> tuple[ModuleEntry, ...]:
    """Read modules.json; a folder without it is a single encoder or a model2vec model.

    route: the one of each Router.

    Raises ModelError for an unsupported module or order of modules.
    """
    path = folder / "modules.json"
    entries = _routed(folder, _listed(path), route) if has_modules(folder) else _implied(folder)
    kinds = [entry.kind for entry in entries]
    if kinds == ["Transformer", LOGIT_SCORE]:
        return entries
    supported = (*ENCODERS, *_POOLINGS["Transformer"], *_READERS, WORD_WEIGHTS, LAYER_WEIGHTS)
    if unknown := [kind for kind in kinds if kind not in supported]:
        raise ModelError(f"{path}: modules {unknown} are not supported; supported: {supported}")
    if kinds[:2] == [WORDS, WORD_WEIGHTS] or kinds[:3] == ["Transformer", LAYER_WEIGHTS, "Pooling"]:
        del kinds[1]
    pooled = kinds[1:] and kinds[1] in _POOLINGS.get(kinds[0], ())
    after = kinds[2:] if pooled else kinds[1:]
    if not {*kinds[:1]} & {*ENCODERS} or not _READERS.keys() >= {*after}:
        raise ModelError(f"{path}: modules {kinds} in this order are not supported")
    if SPLADE_POOLING in kinds and after:
        raise ModelError(f"{path}: modules {after} after {SPLADE_POOLING} are not supported")
    return entries


def by_own_code(folder: Path, encoder: ModuleEntry) -> bool:
    """Whether the own code of a model, not its modules, says how it reads texts and images."""
    return encoder.custom or not has_modules(folder)


def read_query_weights(folder: Path) -> ModuleEntry | None:
    """Read the only module for queries of a sparse model without an encoder for them, or None."""
    path = folder / "modules.json"
    listed = _listed(path) if has_modules(folder) else ()
    if [entry.kind for entry in listed] != [ROUTER]:
        return None
    query = _routed(folder, listed, QUERY)
    kinds = [entry.kind for entry in _routed(folder, listed, DOCUMENT)]
    if [entry.kind for entry in query] != [QUERY_WEIGHTS] or SPLADE_POOLING not in kinds:
        return None
    _refuse_default_query(folder / listed[0].path, read_routes(folder / listed[0].path))
    return query[0]


def read_tasks(folder: Path) -> tuple[str, ...]:
    """Return the tasks of a model with other modules for queries than for documents; else ().

    The first one is that of a text without a task. Raises ModelError.
    """
    path = folder / "modules.json"
    listed = _listed(path) if has_modules(folder) else ()
    routers = [read_routes(folder / entry.path) for entry in listed if entry.kind == ROUTER]
    defaults = [routes.default for routes in routers if routes.differ]
    if not defaults or read_query_weights(folder) is not None:
        return ()
    if len({*defaults}) > 1:
        raise ModelError(f"{path}: the Routers have the default routes {defaults}, not one")
    return tuple(sorted(_TASK_ROUTES, key=lambda task: _TASK_ROUTES[task] != defaults[0]))


def task_route(tasks: Sequence[str], task: str) -> str:
    """Return the route of a task of `read_tasks`; by default that of the first one."""
    chosen = task if task in tasks else next(iter(tasks), "")
    return _TASK_ROUTES.get(chosen, DOCUMENT)


def read_vector_modules(
    folder: Path, entries: Sequence[ModuleEntry], width: int, level: str = SENTENCE
) -> list[Module]:
    """Read the modules after the pooling. width: size of the first module's input.

    level: SENTENCE, or TOKENS for a model without a pooling.

    Raises ModelError for an unsupported option and for inconsistent widths.
    """
    modules = [module for entry in entries for module in _modules_of(folder, entry, level)]
    for module in modules:
        if isinstance(module, WithoutWeights):
            continue
        if module.inputs != width:
            raise ModelError(
                f"{folder / module.path}: it expects {module.inputs} dimensions, gets {width}"
            )
        width = module.outputs
    return modules


def read_routes(folder: Path) -> Routes:
    """Read router_config.json.

    Raises ModelError for routes other than queries and documents, and for parameters that choose
    routes by the kinds of inputs.
    """
    options = JsonConfig(folder / ROUTER_FILE)
    options.refuse_unknown({"types", "structure", "parameters"})
    parameters = options.nested("parameters")
    parameters.refuse_unknown(_ROUTER_PARAMETERS)
    kinds, structure = options["types"], options["structure"]
    if set(structure) != {QUERY, DOCUMENT}:
        raise options.unsupported("structure", sorted(structure), [DOCUMENT, QUERY])
    routes = {route: _route_modules(options, kinds, paths) for route, paths in structure.items()}
    if routes[QUERY] == routes[DOCUMENT]:
        return Routes(routes, DOCUMENT)
    parameters.require("route_mappings", None, {})
    fallback = next(iter(routes)) if parameters.get("allow_empty_key", True) else DOCUMENT
    default = parameters.get("default_route", fallback)
    if default not in routes:
        raise parameters.unsupported("default_route", default, [*routes])
    return Routes(routes, default)


def _refuse_default_query(folder: Path, routes: Routes) -> None:
    """Raise ModelError if a text without a task is a query."""
    if routes.default != DOCUMENT:
        parameters = JsonConfig(folder / ROUTER_FILE).nested("parameters")
        raise parameters.unsupported("default_route", routes.default, DOCUMENT)


def _route_modules(
    options: JsonConfig, kinds: dict[str, str], paths: Sequence[str]
) -> list[tuple[str, str]]:
    if missing := [path for path in paths if path not in kinds]:
        raise options.unsupported("structure", missing, sorted(kinds))
    return [(kinds[path], path) for path in paths]


def _listed(path: Path) -> tuple[ModuleEntry, ...]:
    listed = read_json(path)
    if not isinstance(listed, list):
        raise ModelError(f"{path} is not a JSON list")
    modules = [JsonConfig(path, module) for module in listed]
    for module in modules:
        module.refuse_unknown({"idx", "name", "path", "type", "kwargs"})
    return tuple(_entry(path, module["type"], module["path"]) for module in modules)


def _routed(folder: Path, listed: Sequence[ModuleEntry], route: str) -> tuple[ModuleEntry, ...]:
    # The modules with those of a route in place of each Router.
    entries: list[ModuleEntry] = []
    for entry in listed:
        if entry.kind != ROUTER:
            entries.append(entry)
            continue
        prefix = f"{entry.path}/" if entry.path else ""
        modules = read_routes(folder / entry.path).modules[route]
        entries += [_entry(folder / entry.path, kind, prefix + part) for kind, part in modules]
    return tuple(entries)


def _entry(path: Path, kind: str, module_path: str) -> ModuleEntry:
    kind = _ALIASES.get(kind, kind)
    custom = kind in _CUSTOM or kind.rpartition(".")[2] == _KALM
    if not custom and not kind.startswith(_PACKAGE):
        raise ModelError(f"{path}: modules {[kind]} are not supported: remote code is not run")
    relative = PurePosixPath(module_path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ModelError(f"{path}: {module_path!r} is not inside the model's folder")
    name = kind.rpartition(".")[2]
    return ModuleEntry(_FORMER_NAMES.get(name, name), module_path, custom)


def _implied(folder: Path) -> tuple[ModuleEntry, ...]:
    options = JsonConfig.optional(folder / "config.json")
    if options.get("model_type") != "model2vec":
        return (ModuleEntry("Transformer", ""),)
    return (
        ModuleEntry(STATIC, ""),
        *[ModuleEntry("Normalize", "")] * bool(options.get("normalize", False)),
    )


def _modules_of(folder: Path, entry: ModuleEntry, level: str) -> list[Module]:
    read = _READERS.get(entry.kind)
    return read(folder, entry.path, level) if read else []


def _dense(folder: Path, path: str, level: str) -> list[Module]:
    options = JsonConfig(folder / path / "config.json")
    options.require("module_input_name", level)
    options.require("module_output_name", level)
    name = options.get("activation_function", "torch.nn.modules.activation.Tanh")
    kind = name.rpartition(".")[2]
    if not name.startswith("torch.nn.modules.") or kind not in ACTIVATIONS:
        raise options.unsupported("activation_function", name, ACTIVATIONS)
    dense = Dense(
        path=path,
        inputs=options["in_features"],
        outputs=options["out_features"],
        bias=options.get("bias", True),
        activation=kind,
        residual=options.get("use_residual", False),
    )
    return [dense]


def _layer_norm(folder: Path, path: str, level: str) -> list[Module]:
    return [LayerNorm(path=path, inputs=JsonConfig(folder / path / "config.json")["dimension"])]


def _normalize(folder: Path, path: str, level: str) -> list[Module]:
    config = folder / path / "config.json"
    if config.exists():
        options = JsonConfig(config)
        options.require("module_input_name", level)
        options.require("module_output_name", level)
    return [Normalize()]


def _tanh_int8(folder: Path, path: str, level: str) -> list[Module]:
    return [TanhInt8()]


def _ignore(folder: Path, path: str, level: str) -> list[Module]:
    return []


_READERS: Mapping[str, Callable[[Path, str, str], list[Module]]] = {
    "Dense": _dense,
    "FlexibleQuantizer": _tanh_int8,
    "LayerNorm": _layer_norm,
    "Normalize": _normalize,
    "Dropout": _ignore,  # used in training only
    "MultiVectorMask": _ignore,  # see multi_vector
}


_LEVELS = {"module_input_name", "module_output_name"}
_WIDTHS = {"embedding_dimension", "word_embedding_dimension"}  # which change nothing
CARD_KEYS = {
    *("model_type", "prompts", "default_prompt_name", "truncate_dim", "max_active_dims"),
    *("activation_fn", "similarity_fn_name", "query_prefix", "document_prefix"),
    *("query_length", "document_length", "query_expansion", "do_query_expansion"),
    *("attend_to_expansion_tokens", "attend_to_mask_tokens", "skiplist_words"),
    *("__version__", "keep_in_fp32_modules"),  # change nothing
}
TRANSFORMER_KEYS = {
    *("max_seq_length", "do_lower_case", "transformer_task", "modality_config"),
    *("module_output_name", "processing_kwargs", "tokenizer_name_or_path"),
    *("model_args", "model_kwargs", "config_args", "config_kwargs"),
    *("tokenizer_args", "processor_kwargs"),
    *("query_length", "document_length", "query_expansion"),
    "unpad_inputs",  # changes nothing
}
MODULE_KEYS: Mapping[str, set[str]] = {  # kind of a module -> keys of its config.json
    "Pooling": {
        *("pooling_mode", "include_prompt", "pooling_mode_cls_token"),
        *("pooling_mode_max_tokens", "pooling_mode_mean_tokens"),
        *("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"),
        *("pooling_mode_lasttoken", "assumed"),
        *_WIDTHS,
    },
    "Dense": {
        *("in_features", "out_features", "bias", "activation_function", "use_residual"),
        *_LEVELS,
    },
    "LayerNorm": {"dimension"},
    "Normalize": _LEVELS,
    "Dropout": {"dropout"},
    "SpladePooling": {"pooling_strategy", "activation_function", "chunk_size", *_WIDTHS},
    "MultiVectorMask": {"skiplist_words", "skiplist_tasks", "keep_only_token_ids"},
    "WordWeights": {"vocab", "word_weights", "unknown_word_weight"},
    "WeightedLayerPooling": {"layer_start", "num_hidden_layers", *_WIDTHS},
    "LogitScore": {"true_token_id", "false_token_id", "module_input_name"},
}


def refuse_unknown_keys(folder: Path, entries: Sequence[ModuleEntry]) -> None:
    """Raise ModelError for an unknown key in a model's card and in the files of its modules."""
    read_card(folder).refuse_unknown(CARD_KEYS)
    if file := options_file(folder, entries[0].path):
        JsonConfig(file).refuse_unknown(TRANSFORMER_KEYS)
    for entry in entries:
        file = folder / entry.path / "config.json"
        if entry.kind in MODULE_KEYS and entry.path and file.exists():
            JsonConfig(file).refuse_unknown(MODULE_KEYS[entry.kind])


def refuse_changed_weights(encoder: Path) -> None:
    """Raise ModelError for an encoder with an adapter or unknown quantised weights."""
    adapter = JsonConfig.optional(encoder / "adapter_config.json")
    if adapter.path.exists():
        raise ModelError(
            f"{adapter.path}: an adapter ({adapter.get('peft_type')}) next to a whole model: "
            "delete its files if the weights have it; otherwise put them into a folder of their own"
        )
    formats.quantization(encoder)
