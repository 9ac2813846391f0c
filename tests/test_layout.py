"""Allowed imports between packages, and the modules that a process loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import embedwell

ROOT = Path(__file__).parent.parent
MODELS = sorted((ROOT / "models/embedwell_models").rglob("*.py"))
SERVICE = sorted((ROOT / "service/embedwell").rglob("*.py"))
CLIENT = sorted((ROOT / "service/embedwell_client").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
OUTSIDE_ENGINE = [path for path in SERVICE if "engine" not in path.parts]


# Each package imports only from those before it, and from itself.
ORDER = {
    "embedwell_models": "errors checksum vectors neighbors outputs positions config tables "
    "checkpoint images tokenizer sentence_transformers encoder torch_backend cpu_backend precision "
    "families folder word_table footprint new_folder convert compress hub assembly embedder "
    "training",
    "embedwell": "settings errors process engine request inputs "
    "inference metrics tracing batches api http bulk context playground routers "
    "fastapi_app app uvicorn_adapter server plots evaluation ray cli asgi ray_serve __main__",
}


def imported_modules(path: Path) -> Iterator[str]:
    """The modules that a file imports, each with the imported name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_packages(path: Path) -> Iterator[str]:
    """The top-level packages that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])


@pytest.mark.parametrize("path", MODELS, ids=relative_path)
def test_models_does_not_import_the_service(path: Path) -> None:
    forbidden = {
        "embedwell",
        "embedwell_client",
        "fastapi",
        "starlette",
        "uvicorn",
        "asyncio",
        "pydantic",
    }
    assert not forbidden & set(imported_packages(path))


@pytest.mark.parametrize("path", [*MODELS, *SERVICE], ids=relative_path)
def test_packages_import_only_from_those_before_them(path: Path) -> None:
    _, root, package, *_ = path.relative_to(ROOT).with_suffix("").parts
    if package == "__init__":  # the facade
        return
    order = ORDER[root].split()
    allowed = order[: order.index(package) + 1]
    for module in imported_modules(path):
        top, inner, *_ = [*module.split("."), ""]
        assert top != root or inner in allowed or inner.startswith("__"), module


@pytest.mark.parametrize("path", CLIENT, ids=relative_path)
def test_the_client_needs_httpx_and_numpy_alone(path: Path) -> None:
    others = {*imported_packages(path)} - sys.stdlib_module_names
    allowed = {"embedwell_client", "httpx", "numpy"}
    # A progress bar is shown on request, where tqdm is installed.
    assert others <= (allowed | {"tqdm"} if path.stem == "progress" else allowed)


@pytest.mark.parametrize("path", TESTS, ids=relative_path)
def test_no_test_module_imports_another(path: Path) -> None:
    others = [module for module in imported_modules(path) if module.startswith("tests.")]
    assert not [module for module in others if ".test_" in module]


def test_only_the_adapter_uses_uvicorn() -> None:
    folders = {path.parent.name for path in SERVICE if "uvicorn" in set(imported_packages(path))}
    assert folders == {"uvicorn_adapter"}


@pytest.mark.parametrize("path", OUTSIDE_ENGINE, ids=relative_path)
def test_the_service_outside_its_engine_never_imports_torch(path: Path) -> None:
    assert "torch" not in set(imported_packages(path))


def test_the_imports_of_the_http_process_do_not_load_torch() -> None:
    packages = {"config", "families", "hub", "positions", "sentence_transformers", "tokenizer"}
    modules = [module_name(path) for path in MODELS]
    without_torch = [module for module in modules if module.split(".")[1] in packages]
    program = "import importlib, sys\n" + "\n".join(
        f"importlib.import_module({module!r}); assert 'torch' not in sys.modules, {module!r}"
        for module in [
            *without_torch,
            "embedwell_models.vectors",
            "embedwell.app",
            "embedwell.cli.commands",
        ]
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_the_supervisor_loads_no_large_packages() -> None:
    program = (
        "import sys, embedwell.cli.commands, embedwell.server.bootstrap\n"
        "assert not {'fastapi', 'numpy', 'tokenizers', 'torch', 'uvicorn'} & {*sys.modules}"
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
