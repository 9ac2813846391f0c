"""Allowed imports between packages, and the modules that a process loads."""

import ast
import functools
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import embedwell
from embedwell import doors

ROOT = Path(__file__).parent.parent
MODELS = sorted((ROOT / "models/embedwell_models").rglob("*.py"))
SERVICE = sorted((ROOT / "service/embedwell").rglob("*.py"))
WINGS = {  # packages that the core loads by name: their parts, and the wings that they import
    "embedwell_batches": (
        "batch folder file_store batch_store json_lines route_calls batch_work service routes",
        set[str](),
    ),
    "embedwell_bulk": (
        "text_encoder files columns progress dispatch local_model partitions manifest line_files "
        "arrow_files parts embed_file servers_encoder local_images ray source unfinished run embed",
        {"embedwell_vision"},  # how it decodes several images
    ),
    "embedwell_classic": (
        "compressed_tables tokenizers families words encoders convert compress training",
        set(),
    ),
    "embedwell_classic_service": (
        "word_bodies word_search compress convert train",
        {"embedwell_classic", "embedwell_lab"},  # compress --sts scores a model
    ),
    "embedwell_decide": (
        "questions rows gliner_options folder options laya_rows head gliner_rows gliner_head "
        "label_options label_head families",
        set(),
    ),
    "embedwell_decide_service": (
        "confidence conversation decision_reader decision_service decisions system_one "
        "label_service zero_shot",
        {"embedwell_decide"},
    ),
    "embedwell_desktop": ("local systemd_units launchd_agent service", set()),
    "embedwell_formats": ("gguf onnx_export quantized peft", {"embedwell_prompts"}),
    "embedwell_lab": (
        "options texts vector_source plots evaluation plot evaluate",
        {"embedwell_bulk"},  # vectors of a model without a server
    ),
    "embedwell_otel": ("resource metrics tracing", set()),
    "embedwell_prompts": (
        "pairs formatted_pairs separate_pairs decoder_pairs pair_encoders listwise rerank_formats "
        "chat_templates",
        set(),
    ),
    "embedwell_rare": ("latent_attention torch_layers families", set()),
    "embedwell_vendors": (
        "field_names jina_fields vllm_fields feature_extraction multi_vector nim sagemaker score "
        "vllm voyage weaviate embeddings rerank azure",
        set(),
    ),
    "embedwell_vision": (
        "specs text_formats images families linked_folders page_options options positions "
        "image_weights attention_pooling references image_embedder image_tokens torch_backend "
        "texts_with_images image_encoders image_vectors reader calls",
        {"embedwell_rare"},  # whose Qwen3.5 has images, too
    ),
}
WING_FILES = sorted(
    path
    for wing in WINGS
    for root in ("models", "service")
    for path in (ROOT / root / wing).rglob("*.py")
)
CLIENT = sorted((ROOT / "service/embedwell_client").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
BEFORE_ROUTES = [
    path
    for name in ("errors.py", "http", "engine", "compute")
    for path in SERVICE
    if path.is_relative_to(ROOT / "service/embedwell" / name)
]
API = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))["paths"]

# The core serves. Wings have other commands, routes and old models, which the core loads by name.
# In the core, too, each package imports only from those before it, and from itself.
CORE = {
    "embedwell_models": "errors vectors outputs positions config checkpoint vision families "
    "tokenizer model_files encoder cpu_backend torch_backend precision description hub read "
    "loading embedder",
    "embedwell": "doors settings errors line_ends gc_tuning engine "
    "compute http telemetry routes inherited playground "
    "fastapi_app app launch cli asgi __main__",
}
SERVICE_PACKAGES = {path.name for path in (ROOT / "service").glob("embedwell*")}
SERVICE_MODULES = {  # the packages, and what is in them; "embedwell" alone is the cache folder, too
    *(path.name for path in (ROOT / "service").glob("embedwell_*")),
    *(f"{path.parent.name}.{path.stem}" for path in (ROOT / "service").glob("embedwell*/*")),
}
FOR_SERVICES = SERVICE_PACKAGES | {
    "asyncio",
    "click",
    "fastapi",
    "pydantic",
    "starlette",
    "uvicorn",
}
ON_TORCH = {"torch_backend", "torch_layers", "embedwell_classic"}
REGISTRIES = {  # name modules of wings, by strings
    "models/embedwell_models/checkpoint/adapters.py",
    "models/embedwell_models/checkpoint/formats.py",
    "models/embedwell_models/config/layer_spec.py",
    "models/embedwell_models/families/index.py",
    "models/embedwell_models/hub/conversion.py",
    "models/embedwell_models/hub/sources.py",
    "models/embedwell_models/vision.py",
    "models/embedwell_models/model_files/chat_template.py",
    "models/embedwell_models/model_files/rerank_formats.py",
    "models/embedwell_models/checkpoint/tables.py",
    "models/embedwell_models/tokenizer/lists.py",
    "models/embedwell_models/tokenizer/pairs.py",
    "service/embedwell/doors.py",
    "models/embedwell_models/tokenizer/loading/tokenizer_kind.py",
}


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of a file."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported_modules(path: Path) -> Iterator[str]:
    """The modules that a file imports, each with the imported name."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_packages(path: Path) -> Iterator[str]:
    """The top-level packages that a file imports, also inside functions."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def strings(path: Path) -> Iterator[str]:
    """The strings of a file."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])


def violations(
    paths: Iterable[Path], find: Callable[[Path], Iterable[object]]
) -> dict[str, list[object]]:
    """What a rule finds wrong in each file; nothing for files that keep it."""
    return {relative_path(path): found for path in paths if (found := [*find(path)])}


def modules_of_the_service(path: Path) -> Iterator[str]:
    """Modules of service/, and packages for services, that a file imports or names in a string.

    Imports inside functions count.
    """
    yield from FOR_SERVICES & {*imported_packages(path)}
    for name in strings(path):  # for importlib.import_module, pkgutil.resolve_name, python -m
        top, *inner = re.split("[.:]", name)
        if top in SERVICE_PACKAGES and ".".join([top, *inner[:1]]) in SERVICE_MODULES:
            yield name


def test_every_package_is_in_the_wheel_and_checked() -> None:
    files = (path for root in ("models", "service") for path in (ROOT / root).glob("*/__init__.py"))
    packages = {path.parent.name for path in files}
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    wheel = tools["hatch"]["build"]["targets"]["wheel"]["packages"]
    named = {
        "pyproject.toml, packages of the wheel": {Path(path).name for path in wheel},
        "pyproject.toml, toplevel": {*tools["check-wheel-contents"]["toplevel"]},
        "pyproject.toml, packages of mypy": {
            name for name in tools["mypy"]["packages"] if name.startswith("embedwell")
        },
        "tests/test_layout.py, WINGS": {*WINGS, *CORE, "embedwell_client"},
    }
    wrong = {place: packages ^ names for place, names in named.items() if names != packages}
    assert not wrong, "add these packages there, or remove those that are gone"


def test_the_packages_of_models_do_not_know_those_of_the_service() -> None:
    paths = [*(ROOT / "models").glob("embedwell*/**/*.py")]
    assert {*MODELS} < {*paths}
    wrong = violations(paths, modules_of_the_service)
    assert not wrong, "move what uses them to a package in service/"


def imports_from_later_packages(path: Path) -> Iterator[str]:
    _, root, package, *_ = path.relative_to(ROOT).with_suffix("").parts
    if package == "__init__":  # the facade
        return
    order = (WINGS[root][0] if root in WINGS else CORE[root]).split()
    if package not in order:
        yield f"{package} itself has no place there"
        return
    allowed = order[: order.index(package) + 1]
    for module in imported_modules(path):
        top, inner, *_ = [*module.split("."), ""]
        of_root = inner.startswith("__") or (root in WINGS and inner not in order)  # an error
        if not (top != root or inner in allowed or of_root):
            yield module


def test_packages_import_only_from_those_before_them() -> None:
    wrong = violations([*MODELS, *SERVICE, *WING_FILES], imports_from_later_packages)
    assert not wrong, "import only from those before it in the order of CORE or WINGS"


@pytest.mark.parametrize("wing", WINGS)
def test_a_wing_imports_the_core_and_the_wings_that_it_names(wing: str) -> None:
    forbidden = {*WINGS} - {wing, *WINGS[wing][1]}
    paths = [path for path in WING_FILES if wing in path.parts]
    assert paths, "remove it from WINGS"
    wrong = violations(paths, lambda path: forbidden & {*imported_packages(path)})
    assert not wrong, "name the wings that it imports in WINGS"


def modules_of_wings(names: Iterable[str]) -> list[str]:
    return [name for name in names if re.split("[.:]", name)[0] in WINGS]


def test_the_core_imports_nothing_of_a_wing() -> None:
    core = [*MODELS, *SERVICE]
    imported = violations(core, lambda path: modules_of_wings(imported_modules(path)))
    assert not imported, "load a wing by its name, in a file of REGISTRIES"
    others = [path for path in core if relative_path(path) not in REGISTRIES]
    named = violations(others, lambda path: modules_of_wings(strings(path)))
    assert not named, "name a wing only in a file of REGISTRIES"


@pytest.mark.parametrize("path", sorted(REGISTRIES))
def test_the_names_in_a_registry_are_those_of_wings(path: str) -> None:
    names = modules_of_wings(strings(ROOT / path))
    assert names, "remove it from REGISTRIES"
    assert all(pkgutil.resolve_name(name) for name in names)


def test_each_command_and_router_of_the_tables_exists() -> None:
    names = {name: doors.load(path).name for name, path in doors.COMMANDS.items()}
    assert names == {name: name for name in names}, "a command has the name of its key in COMMANDS"
    assert all(callable(doors.load(name)) for name in doors.ROUTES.values())


def test_starting_the_server_loads_no_wing() -> None:
    program = (
        "import sys, embedwell.cli.serve, embedwell.app, embedwell_models.embedder\n"
        "from embedwell import doors\n"
        f"wings = { {*WINGS} }\n"
        "core = [name for name in doors.ROUTES.values() if name.split('.')[0] not in wings]\n"
        "assert [*map(doors.load, core)]\n"
        "assert not wings & {*sys.modules}, wings & {*sys.modules}"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_a_model_in_safetensors_loads_no_wing(minilm_folder: Path) -> None:
    program = (
        "import sys; from embedwell_models import Embedder\n"
        "from embedwell_models.description import model_fingerprint\n"
        "from embedwell_models.hub.sources import resolve\n"
        "from embedwell_models.description.model_description import ModelDescription\n"
        "folder = resolve(sys.argv[1]); model = Embedder.load(folder, device='cpu')\n"
        "assert model.embed(['a text']).any()\n"
        "assert model_fingerprint.fingerprint(ModelDescription.read(folder))\n"
        f"loaded = { {*WINGS} } & {{name.split('.')[0] for name in sys.modules}}\n"
        "assert not loaded, loaded"
    )
    command = [sys.executable, "-c", program, str(minilm_folder)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_only_routes_name_routes() -> None:
    def find(path: Path) -> list[str]:
        return [text for text in strings(path) if any(f"{route} " in f"{text} " for route in API)]

    assert not violations(BEFORE_ROUTES, find), "let a route say it: see RouteTraits"


def fields_of_inputs() -> set[str]:
    """The fields that the bodies of routes name as those of their inputs."""
    assigned = (
        node.value
        for path in SERVICE
        for node in nodes(path)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "input_fields"
    )
    return {name for value in assigned for name in ast.literal_eval(value)}


def test_only_routes_name_the_fields_of_inputs() -> None:
    fields = fields_of_inputs()
    assert {"input", "texts", "documents"} <= fields
    others = [
        path for path in BEFORE_ROUTES if path.parent.name in {"embedwell", "compute", "http"}
    ]
    wrong = violations(others, lambda path: fields & {*strings(path)})
    assert not wrong, "let the body of a route name it: see input_fields of Body"


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {module_name(path): path for path in [*MODELS, *SERVICE, *WING_FILES]}
    imports = {
        name: {each for full in imported_modules(path) for each in (full, full.rpartition(".")[0])}
        & (paths.keys() - {name})
        for name, path in paths.items()
    }
    tuple(TopologicalSorter(imports).static_order())  # raises CycleError


def test_the_client_needs_httpx_and_numpy_alone() -> None:
    allowed = {*sys.stdlib_module_names, "embedwell_client", "httpx", "numpy"}
    # A progress bar is shown on request, where tqdm is installed. hatch_build.py is not packaged.
    more = {"clients": {"tqdm"}, "hatch_build": {"hatchling"}}

    def find(path: Path) -> set[str]:
        return {*imported_packages(path)} - allowed - more.get(path.stem, set())

    assert not violations(CLIENT, find)


def test_no_test_module_imports_another() -> None:
    def find(path: Path) -> list[str]:
        others = [module for module in imported_modules(path) if module.startswith("tests.")]
        return [module for module in others if ".test_" in module]

    assert not violations(TESTS, find), "move what both use to a module without test_"


def uses_of_uvicorn(path: Path) -> Iterator[str]:
    """Imports, attributes and bases of uvicorn that a file should not have."""
    for name in imported_modules(path):
        if name.split(".")[0] == "uvicorn" and (
            name != "uvicorn" or path.parent.name != "protocol"
        ):
            yield name
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "uvicorn":
            if node.attr not in {"Server", "Config"}:
                yield node.attr
        elif isinstance(node, ast.ClassDef):
            bases = {*map(ast.unparse, node.bases)} - {"uvicorn.Server"}  # its loop polls
            yield from (name for name in bases if "uvicorn" in name)


def test_uvicorn_is_used_by_its_public_parts_alone() -> None:
    assert not violations([*SERVICE, *WING_FILES], uses_of_uvicorn)


WITHOUT_TORCH = [
    path
    for path in [*MODELS, *SERVICE, *WING_FILES]
    if not ON_TORCH & {*path.relative_to(ROOT).parts[1:3]}
]


def test_only_the_packages_on_torch_import_it() -> None:
    wrong = violations(WITHOUT_TORCH, lambda path: {*imported_packages(path)} & {"torch"})
    assert not wrong, f"move what uses torch to one of {sorted(ON_TORCH)}"


@pytest.mark.needs("opentelemetry.exporter")
def test_the_imports_of_the_core_do_not_load_torch() -> None:
    others = {"__main__", "on_torch", "torch_engine_process"}  # imported for models that need torch
    paths = [path for path in WITHOUT_TORCH if path.stem not in others and path not in WING_FILES]
    imported = [module_name(path).removesuffix(".__init__") for path in paths]
    program = "import importlib, sys\n" + "\n".join(
        f"importlib.import_module({name!r}); assert 'torch' not in sys.modules, {name!r}"
        for name in imported
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_the_imports_of_the_http_process_do_not_load_torch() -> None:
    packages = {"checkpoint", "config", "families", "hub", "positions", "model_files"}
    packages |= {"tokenizer", "tokenizers", "word_search", "words"}
    modules = [module_name(path) for path in [*MODELS, *WING_FILES]]
    on_numpy = ("encoders.doc2vec", "encoders.word_vectors")
    wings = ("embedwell_formats", "embedwell_prompts")
    without_torch = [
        module
        for module in modules
        if module.split(".")[1] in packages
        or module.endswith(on_numpy)
        or module.startswith(wings)
        or (module.startswith("embedwell_vision.") and "torch_backend" not in module)
    ]
    program = "import importlib, sys\n" + "\n".join(
        f"importlib.import_module({module!r}); assert 'torch' not in sys.modules, {module!r}"
        for module in [
            *without_torch,
            "embedwell_models.vectors",
            "embedwell.app",
            "embedwell.cli.serve",
        ]
    )
    program += (
        "\nfrom embedwell import doors; [*map(doors.load, doors.ROUTES.values())]"
        "; assert 'torch' not in sys.modules"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_the_supervisor_loads_no_large_packages() -> None:
    program = (
        "import sys, embedwell.cli.commands, embedwell.cli.serve, embedwell.launch.bootstrap\n"
        "loaded = {'fastapi', 'numpy', 'tokenizers', 'torch', 'uvicorn'} & {*sys.modules}\n"
        "assert not loaded, loaded"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("module", "others"),
    [
        (
            "embedwell.launch.engine_process, embedwell.engine.worker.main",
            "PIL asyncio click fastapi pydantic tokenizers torch tqdm",
        ),
        ("embedwell_models.embedder", "PIL asyncio email subprocess torch tqdm zipfile"),
    ],
)
def test_an_engine_and_the_library_load_what_they_need_alone(module: str, others: str) -> None:
    program = (
        f"import sys, {module}; loaded = {{*sys.modules}} & {{*{others.split()!r}}}\n"
        "assert not loaded, loaded"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_the_package_exports_only_its_facade() -> None:
    import embedwell_models
    from embedwell_models.embedder import Embedder

    assert embedwell_models.Embedder is Embedder
    with pytest.raises(AttributeError, match="'embedwell_models' has no attribute 'Encoder'"):
        _ = embedwell_models.Encoder


def test_the_names_of_the_facade_load_no_more_than_they_need() -> None:
    program = (
        "import sys, embedwell; loaded = {*sys.modules}\n"
        "assert not {'numpy', 'httpx', 'embedwell_client', 'embedwell_models'} & loaded\n"
        "from embedwell import AsyncClient, Client, RequestFailed\n"
        "assert Client.__module__.startswith('embedwell_client')\n"
        "assert not {'torch', 'pydantic', 'tokenizers', 'embedwell_models'} & {*sys.modules}\n"
        "from embedwell import Embedder; import embedwell_models\n"
        "assert Embedder is embedwell_models.Embedder\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="'embedwell' has no attribute 'Encoder'"):
        _ = embedwell.Encoder


def test_git_ignores_no_source_file(tmp_path: Path) -> None:
    sources = [
        *MODELS,
        *SERVICE,
        *WING_FILES,
        *CLIENT,
        *(ROOT / "models/embedwell_models/kernels").glob("*.[ch]*"),
    ]
    files = "\n".join(relative_path(path) for path in sources)
    (tmp_path / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin"]
    process = subprocess.run(
        command, cwd=tmp_path, input=files, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (1, "")  # 1: none is ignored
