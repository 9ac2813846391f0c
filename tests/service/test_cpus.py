"""Processors allotted by affinity and cgroup."""

import os
from pathlib import Path

import pytest

from service.engine.cpus import allotted

VISIBLE = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100000 100000", 1),
        ("max 100000", VISIBLE),
        ("50000 100000", 1),
        ("9900000 100000", VISIBLE),
    ],
)
def test_a_quota_of_version_two_is_honoured(tmp_path: Path, text: str, expected: int) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert allotted(tmp_path) == expected


def test_part_of_a_processor_counts_as_one_more(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000")
    assert allotted(tmp_path) == min(2, VISIBLE)


@pytest.mark.parametrize(("quota", "expected"), [("100000", 1), ("-1", VISIBLE)])
def test_a_quota_of_version_one_is_honoured(tmp_path: Path, quota: str, expected: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000")
    assert allotted(tmp_path) == expected


def test_without_a_cgroup_the_affinity_counts(tmp_path: Path) -> None:
    assert allotted(tmp_path) == VISIBLE
