"""Tests of the cores of processors, with a folder in place of /sys."""

from pathlib import Path

import pytest

from embedwell_models.encoder.cores import allowed_cpus, count_cores


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Eight processors: two hyperthreads of each of four cores, numbered as Linux does."""
    for cpu in range(8):
        topology = tmp_path / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("cpus", "cores"),
    [(range(8), 4), (range(4), 4), ([1, 5], 1), ([1, 5, 6], 2), ([7], 1)],
)
def test_hyperthreads_of_a_core_count_once(system: Path, cpus: list[int], cores: int) -> None:
    assert count_cores(cpus, system) == cores


def test_each_processor_is_a_core_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert count_cores(range(6), tmp_path) == 6


def test_this_process_has_a_core() -> None:
    assert 1 <= count_cores(allowed_cpus()) <= len(allowed_cpus())
