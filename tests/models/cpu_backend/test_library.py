"""Tests of which kernels are taken, and of what there is without them."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.library import (
    ARM,
    CAPS,
    FOLDER,
    ISAS,
    X86,
    best_isa,
    features,
    has_fast_bfloat16,
    kernels_missing,
    lower_caps,
    release_scratch,
)
from embedwell_models.cpu_backend.processor import SLOW_BFLOAT16
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.device import return_free_memory
from embedwell_models.errors import ModelError
from hatch_build import (
    FLAGS,
    TARGETS,
    THREAD_FLAGS,
    THREAD_SOURCES,
    THREADS,
    best_isas,
    compiler,
    source_checksum,
    target,
)
from tests.programs import program
from tests.service.server import MAX_ISA

ROOT = Path(__file__).parents[3]
ALL = frozenset().union(*ISAS.values())
KIND = ARM if platform.machine() in {"aarch64", "arm64"} else X86
LOWEST, HIGHER = ("neon", "dotprod") if KIND is ARM else ("avx2", "avx512")


def is_compiled(isa: str) -> bool:
    return (FOLDER / f"libencoder-{isa}.so").exists()


COMPILED = is_compiled(LOWEST)


def test_the_best_instruction_set_of_a_processor_is_chosen() -> None:
    # Without a compiler at installation there is none to choose; `make test` compiles the best two.
    lowest = LOWEST if COMPILED else None
    assert best_isa("float32", ISAS[LOWEST]) == lowest
    higher = HIGHER if is_compiled(HIGHER) else lowest
    assert best_isa("float32", ISAS[LOWEST] | ISAS[HIGHER]) == higher
    assert best_isa("bfloat16", ISAS[LOWEST] | ISAS[HIGHER]) is None
    assert best_isa("float32", frozenset()) is None


@pytest.mark.skipif(
    not (is_compiled("bf16") and is_compiled("vnni")),
    reason="the kernels for AVX-512 with BF16 and VNNI are not compiled here",
)
def test_kernels_for_a_slow_bfloat16_compute_this_precision_alone() -> None:
    available = ISAS["bf16"] | ISAS["avx512"] | {SLOW_BFLOAT16}
    best = [best_isa(dtype, available) for dtype in ("float32", "int8", "bfloat16")]
    assert best == ["vnni", "vnni", "bf16"]
    assert not has_fast_bfloat16(available)
    assert has_fast_bfloat16(available - {SLOW_BFLOAT16})
    assert not has_fast_bfloat16(ISAS["avx512"])


def test_lower_caps_are_below_the_instruction_set_in_use() -> None:
    *lower, none = lower_caps()
    assert none == "none"
    assert lower == sorted(lower, key=CAPS.index)
    assert all(CAPS.index(cap) > CAPS.index(best_isa("float32") or "none") for cap in lower)


def below(cap: str, names: list[str]) -> set[str]:
    """What a cap leaves of the instruction sets of one kind of processor."""
    if cap in names:
        return {*names[names.index(cap) :]}
    return set() if cap == "none" else {*names}


@pytest.mark.parametrize("cap", CAPS)
def test_a_cap_leaves_the_instruction_sets_from_it_downwards(cap: str) -> None:
    left = features(cap, ALL)
    expected = [below(cap, [*kind]) & below(MAX_ISA, [*kind]) for kind in (X86, ARM)]
    assert {name for name, needed in ISAS.items() if needed <= left} == set.union(*expected)


def test_a_cap_of_another_kind_of_processor_changes_nothing() -> None:
    assert features("avx2", ISAS["mmla"]) == features("auto", ISAS["mmla"])
    assert features("neon", ISAS["amx"]) == features("auto", ISAS["amx"])


def test_a_cap_above_the_processor_changes_nothing() -> None:
    assert features("bf16", ISAS["avx2"]) == features("auto", ISAS["avx2"])


def test_a_cap_of_no_known_name_is_refused(minilm_folder: Path) -> None:
    with pytest.raises(ModelError, match="'sse' is not an instruction set; choose one of auto, "):
        Embedder.load(minilm_folder, isa="sse")


@pytest.mark.needs("torch")
def test_a_model_says_which_kernels_it_uses_and_is_capped_by_itself(minilm_folder: Path) -> None:
    assert Embedder.load(minilm_folder, device="cpu", isa="none").isa is None
    others = ", int8, int4" if best_isa("int8", features(LOWEST)) else ""
    with pytest.raises(ModelError, match=rf"bfloat16 is not .* supported: float32{others}$"):
        Embedder.load(minilm_folder, device="cpu", dtype="bfloat16", isa=LOWEST)
    capped = Embedder.load(minilm_folder, device="cpu", dtype="float32", isa=LOWEST)
    assert capped.isa == best_isa("float32", features(LOWEST))


@pytest.mark.needs("torch")
@pytest.mark.skipif(KIND is ARM, reason="torch has caps for x86-64 alone")
def test_the_cap_of_a_process_binds_torch_too() -> None:
    code = (
        "import torch\nfrom embedwell_models.cpu_backend import library\n"
        "from embedwell_models.torch_backend import encoder_factory\n"
        "print('avx2' in library.features(), library.best_isa('float32', library.ISAS['avx2']))\n"
        "library.cap_isa('avx2')\n"
        "features = library.features('bf16')\n"
        "print(library.best_isa('bfloat16'), library.best_isa('float32', features))\n"
        "print(encoder_factory.torch_bfloat16_is_usable(library.features()))\n"
        "print(torch.backends.cpu.get_cpu_capability())"
    )
    # The tests' own cap is in these.
    ours = {"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    )
    able, compiled, *capped = found.stdout.split()
    kernels, torchs = (compiled, "AVX2") if able == "True" else ("None", "DEFAULT")
    assert capped == ["None", kernels, "False", torchs]


def test_a_processor_that_kernels_would_suit_lacks_them(tmp_path: Path) -> None:
    assert kernels_missing(ISAS["avx2"] | ISAS["avx512"], tmp_path)
    assert kernels_missing(ISAS["neon"], tmp_path)
    assert not kernels_missing(frozenset({"avx2"}), tmp_path), "there are none for it"
    assert kernels_missing(ISAS[LOWEST]) == (not COMPILED)


INSTALL = "the package was installed without this compiler, or by `make test`: make kernels"


def can_compile(isa: str) -> bool:
    """Whether the compiler of this machine knows an instruction set."""
    command = compiler() or []
    # Those for the matrix unit are GCC's alone.
    if isa == "amx" and "clang" in os.path.realpath(command[0]):
        return False
    knows = [*command, *TARGETS[target(command)][isa], "-E", "-x", "c++", os.devnull]
    return subprocess.run(knows, capture_output=True, check=False).returncode == 0


def test_where_there_is_a_compiler_the_best_kernels_are_built() -> None:
    best = best_isas(TARGETS.get(target(compiler()), {}), ROOT)
    assert not [isa for isa in best if can_compile(isa) and not is_compiled(isa)], INSTALL
    assert not any(map(can_compile, best)) or (FOLDER / THREADS).exists(), INSTALL


@pytest.mark.full
def test_where_there_is_a_compiler_all_kernels_are_built() -> None:
    every = TARGETS.get(target(compiler()), {})
    assert not [isa for isa in every if can_compile(isa) and not is_compiled(isa)], INSTALL


def test_libraries_that_are_missing_or_broken_are_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert best_isa("float32", ISAS[LOWEST], tmp_path) is None
    (tmp_path / f"libencoder-{LOWEST}.so").write_text("this is no library")
    assert best_isa("int8", ISAS[LOWEST], tmp_path) is None
    assert f"kernels for {LOWEST} are not used" in caplog.text


def test_libraries_of_other_sources_make_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = [*(compiler() or [program("c++", "g++")]), *THREAD_FLAGS, "-fPIC", "-shared"]
    names = [f"libencoder-{isa}.so" for isa in ISAS]
    (tmp_path / "empty.cpp").write_text("")
    subprocess.run([*command, "empty.cpp", "-o", names[0]], cwd=tmp_path, check=True)
    for name in names[1:]:
        shutil.copy(tmp_path / names[0], tmp_path / name)
    assert best_isa("float32", ALL, tmp_path) is None
    assert len([*filter(None, caplog.text.splitlines())]) == 1


@pytest.mark.skipif(not best_isa("float32"), reason="there are no kernels for this processor")
@pytest.mark.parametrize("sources", ["missing", "other"])
def test_kernels_without_their_threads_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sources: str
) -> None:
    # Loaded libraries are cached by their path, and both cases may get the same temporary folder.
    folder, isa = tmp_path / sources, best_isa("float32") or ""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns(THREADS))
    if sources == "other":
        command = [*(compiler() or [program("c++", "g++")]), *FLAGS, *THREAD_FLAGS]
        flags = ["-DSOURCE_CHECKSUM=1", *THREAD_SOURCES, "-o", THREADS]
        subprocess.run([*command, *flags], cwd=folder, check=True)
    available = ISAS[isa] | ISAS[LOWEST]
    assert best_isa("float32", available, folder) is None
    assert kernels_missing(available, folder)
    reason = "cannot open" if sources == "missing" else "compiled from other sources"
    assert f"kernels for {isa} are not used" in caplog.text and reason in caplog.text


def test_the_checksum_of_the_sources_is_that_which_is_compiled_into_them() -> None:
    assert abi.source_checksum(FOLDER) == source_checksum(FOLDER)


def test_the_checksum_changes_with_a_source(tmp_path: Path) -> None:
    (tmp_path / "pool.h").write_text("enum class Pooling { cls, max };")
    before = abi.source_checksum(tmp_path)
    (tmp_path / "pool.h").write_text("enum class Pooling { max, cls };")
    assert abi.source_checksum(tmp_path) != before


@pytest.mark.skipif(not COMPILED, reason="the lowest kernels are not compiled here")
def test_a_library_of_other_sources_is_not_called(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    names = (f"libencoder-{LOWEST}.so", THREADS, "*.cpp", "*.h")
    for folder in (same, other):
        folder.mkdir()
        for path in (path for name in names for path in FOLDER.glob(name)):
            shutil.copy(path, folder)
    (other / "pool.h").write_text("enum class Pooling { cls, max };")
    assert best_isa("float32", ISAS[LOWEST], same) == LOWEST and not caplog.text
    assert best_isa("float32", ISAS[LOWEST], other) is None
    assert "they were compiled from other sources; compile them again" in caplog.text
    assert kernels_missing(ISAS[LOWEST], other)


@pytest.mark.skipif(not best_isa("float32"), reason="there are no kernels for this processor")
def test_memory_that_the_kernels_keep_goes_back_to_the_system(embedder: Embedder) -> None:
    rows = [*np.arange(256 * 16, dtype=np.int32).reshape(16, 256)]
    vectors, process = embedder.encode(rows), psutil.Process()
    before = process.memory_info().rss
    released = release_scratch()
    return_free_memory()
    assert released > 4e6
    # A call touches about three quarters of the memory, which is rounded up to huge pages.
    assert before - process.memory_info().rss > 0.5 * released
    assert release_scratch() == 0
    assert embedder.encode(rows).tobytes() == vectors.tobytes()
