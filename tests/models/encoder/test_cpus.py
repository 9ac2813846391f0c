"""Tests of the number of threads that quotas allow."""

from pathlib import Path

import pytest

from embedwell_models.encoder.cpus import allowed_cpus, available_cpus, within_quotas

WANTED = 8


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
        ("max 100000", WANTED),
        ("50000 100000", 1),
        ("9900000 100000", WANTED),
    ],
)
@pytest.mark.parametrize("group", [".", "system.slice", "system.slice/it.service"])
def test_a_quota_of_version_two_counts_in_every_parent_group(
    tmp_path: Path, membership: Path, group: str, text: str, expected: int
) -> None:
    (tmp_path / group).mkdir(parents=True, exist_ok=True)
    (tmp_path / group / "cpu.max").write_text(text)
    assert within_quotas(WANTED, 1, tmp_path, membership) == expected


def test_the_smallest_quota_counts(tmp_path: Path, membership: Path) -> None:
    (tmp_path / "system.slice").mkdir()
    (tmp_path / "cpu.max").write_text("100000 100000")
    (tmp_path / "system.slice/cpu.max").write_text("9900000 100000")
    assert within_quotas(WANTED, 1, tmp_path, membership) == 1


@pytest.mark.parametrize(("quota", "expected"), [("150000", 1), ("250000", 2), ("10000", 1)])
def test_a_fraction_of_a_processor_is_rounded_down(
    tmp_path: Path, membership: Path, quota: str, expected: int
) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota} 100000")
    assert within_quotas(WANTED, 1, tmp_path, membership) == expected


@pytest.mark.parametrize(("quota", "expected"), [("100000", 1), ("-1", WANTED)])
@pytest.mark.parametrize("group", ["cpu", "cpu/one", "cpu/one/two"])
def test_a_quota_of_version_one_counts_in_every_parent_group(
    tmp_path: Path, membership: Path, group: str, quota: str, expected: int
) -> None:
    (tmp_path / group).mkdir(parents=True)
    (tmp_path / group / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / group / "cpu.cfs_period_us").write_text("100000")
    assert within_quotas(WANTED, 1, tmp_path, membership) == expected


def test_groups_of_other_processes_do_not_count(tmp_path: Path, membership: Path) -> None:
    for group in ("other.slice", "else", "cpu/two"):
        (tmp_path / group).mkdir(parents=True)
        (tmp_path / group / "cpu.max").write_text("100000 100000")
    assert within_quotas(WANTED, 1, tmp_path, membership) == WANTED


def test_without_a_cgroup_there_is_no_limit(tmp_path: Path) -> None:
    assert within_quotas(WANTED, 1, tmp_path, tmp_path / "none") == WANTED


@pytest.mark.parametrize(("engines", "expected"), [(1, 5), (2, 2), (3, 1), (9, 1)])
def test_engines_share_a_quota(
    tmp_path: Path, membership: Path, engines: int, expected: int
) -> None:
    (tmp_path / "cpu.max").write_text("500000 100000")
    assert within_quotas(WANTED, engines, tmp_path, membership) == expected


def test_this_process_may_use_a_processor_of_this_machine() -> None:
    assert 1 <= available_cpus() == within_quotas(len(allowed_cpus())) <= len(allowed_cpus())
