"""The benchmark of the engine's loop."""

from pathlib import Path

import pytest

from benchmarks.loop import Cost, Lists, Load, http_report, measure, measure_http, report


@pytest.mark.parametrize("texts_per_job", [1, 32])
def test_the_texts_of_another_process_are_computed(texts_per_job: int) -> None:
    cost = measure(Load(200, texts_per_job, dim=8))
    assert cost.cpu_seconds > 0 and cost.seconds > 0


def test_the_report_has_the_least_time_of_each_size() -> None:
    costs = [Cost(Load(1000, size), 0.01, cpu) for size in (1, 32) for cpu in (0.004, 0.002)]
    *_, one, many = report(costs).splitlines()
    assert one.split() == ["1", "2.00", "500,000", "100,000"]
    assert many.split() == ["32", "2.00", "500,000", "100,000"]


def test_an_http_process_gets_vectors_without_a_model(
    minilm_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    costs = measure_http(minilm_folder, texts=32, texts_per_request=16, rounds=1)
    assert [lists for lists, _ in costs] == [
        Lists(16, words, first) for words in (10, 62) for first in (True, False)
    ]
    assert "16 × 10 words, first" in http_report(costs)
    assert "CRITICAL" not in capfd.readouterr().err, "it ends before the benchmark"
