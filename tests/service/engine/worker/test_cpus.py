"""Tests of the number of available processors."""

import os
from pathlib import Path

import pytest

from embedwell.engine.worker.cpus import available_cpus

VISIBLE = len(os.sched_getaffinity(0))


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    """A file that names the cgroups of a process, of both versions."""
    file = tmp_path / "membership"
    file.write_text("4:memory:/else\n2:cpu,cpuacct:/one/two\n0::/system.slice/it.service\n")
    return file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100000 100000", 1),
        ("max 100000", VISIBLE),
        ("50000 100000", 1),
        ("9900000 100000", VISIBLE),
    ],
)
@pytest.mark.parametrize("group", [".", "system.slice", "system.slice/it.service"])
def test_a_quota_of_version_two_counts_in_every_parent_group(
    tmp_path: Path, membership: Path, group: str, text: str, expected: int
) -> None:
    (tmp_path / group).mkdir(parents=True, exist_ok=True)
    (tmp_path / group / "cpu.max").write_text(text)
    assert available_cpus(tmp_path, membership) == expected


def test_the_smallest_quota_counts(tmp_path: Path, membership: Path) -> None:
    (tmp_path / "system.slice").mkdir()
    (tmp_path / "cpu.max").write_text("100000 100000")
    (tmp_path / "system.slice/cpu.max").write_text("9900000 100000")
    assert available_cpus(tmp_path, membership) == 1


def test_a_fraction_of_a_processor_is_rounded_up(tmp_path: Path, membership: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000")
    assert available_cpus(tmp_path, membership) == min(2, VISIBLE)


@pytest.mark.parametrize(("quota", "expected"), [("100000", 1), ("-1", VISIBLE)])
@pytest.mark.parametrize("group", ["cpu", "cpu/one", "cpu/one/two"])
def test_a_quota_of_version_one_counts_in_every_parent_group(
    tmp_path: Path, membership: Path, group: str, quota: str, expected: int
) -> None:
    (tmp_path / group).mkdir(parents=True)
    (tmp_path / group / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / group / "cpu.cfs_period_us").write_text("100000")
    assert available_cpus(tmp_path, membership) == expected


def test_groups_of_other_processes_do_not_count(tmp_path: Path, membership: Path) -> None:
    for group in ("other.slice", "else", "cpu/two"):
        (tmp_path / group).mkdir(parents=True)
        (tmp_path / group / "cpu.max").write_text("100000 100000")
    assert available_cpus(tmp_path, membership) == VISIBLE


def test_without_a_cgroup_the_affinity_counts(tmp_path: Path) -> None:
    assert available_cpus(tmp_path, tmp_path / "none") == VISIBLE
