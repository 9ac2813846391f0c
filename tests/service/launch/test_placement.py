"""Tests of the processors and threads of engines, with a folder in place of /sys."""

import os
from pathlib import Path

import pytest

from embedwell.engine.worker.cpus import available_cpus, within_quotas
from embedwell.launch.placement import node_cpus, place
from embedwell.settings.settings import Settings

ALLOWED = sorted(os.sched_getaffinity(0))
ABSENT = [ALLOWED[-1] + 1, ALLOWED[-1] + 2]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Three nodes: all processors that this process may use, the first one, and two others."""
    for node, cpus in enumerate((ALLOWED, ALLOWED[:1], ABSENT)):
        folder = tmp_path / f"node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(",".join(map(str, cpus)) + "\n")
    return tmp_path


def placed(
    devices: str, system: Path, **settings: int
) -> tuple[list[str], list[int], list[list[int]]]:
    """The devices, threads and processors of the engines."""
    options = Settings.model_validate({"devices": devices, **settings})
    engines = place(options, [(options, Path("a"))], system)
    return (
        [settings.device for settings, *_ in engines],
        [settings.threads for settings, *_ in engines],
        [[*cpus] for *_, cpus in engines],
    )


def test_an_engine_of_a_node_is_bound_to_its_processors(system: Path) -> None:
    first = ALLOWED[:1]
    both = within_quotas(len(ALLOWED), 2)
    assert placed("cpu:0,cpu:1", system) == (["cpu", "cpu"], [both, 1], [ALLOWED, first])
    assert placed("cpu:1", system) == (["cpu"], [1], [first])
    assert placed("cpu:1,cpu:1", system) == (["cpu", "cpu"], [1, 1], [first, first])


def test_a_node_without_a_usable_processor_is_refused(system: Path) -> None:
    for node in (2, 3):
        with pytest.raises(OSError, match=f"cpu:{node}: "):
            placed(f"cpu:0,cpu:{node}", system)


def test_a_list_of_processors_may_have_ranges(tmp_path: Path) -> None:
    (tmp_path / "node/node0").mkdir(parents=True)
    (tmp_path / "node/node0/cpulist").write_text("0-1023,2000,2004-2005\n")
    assert node_cpus(0, tmp_path) == ALLOWED


def test_engines_on_all_processors_share_them(tmp_path: Path) -> None:
    share = max(1, available_cpus() // 2)
    assert placed("cpu,cpu", tmp_path) == (["cpu", "cpu"], [share, share], [[], []])


def test_the_number_of_threads_may_be_set(system: Path) -> None:
    assert placed("cpu:0,cpu:1", system, threads=7)[1] == [7, 7]


def test_gpus_leave_the_threads_to_the_engine(system: Path) -> None:
    assert placed("cuda:0,cuda:1", system) == (["cuda:0", "cuda:1"], [0, 0], [[], []])


def test_without_several_devices_a_model_has_an_engine(system: Path) -> None:
    options = Settings(device="cpu")
    models = [(options, Path("a")), (options, Path("b"))]
    assert place(options, models, system) == [(*model, ()) for model in models]
