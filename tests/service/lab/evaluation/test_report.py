"""Comparison of scores with a minimum."""

import math

import pytest

from embedwell_lab.evaluation.report import report_results
from embedwell_lab.evaluation.scoring import Result, Variant


@pytest.mark.parametrize(
    ("scores", "minimum", "status", "message"),
    [
        ([70.0, 60.0], 60.0, False, ""),
        ([70.0, 59.9], 60.0, True, "task 1: spearman 59.90 is below --min-score 60.0"),
        ([math.nan, 70.0], -100.0, True, "task 0: spearman nan is not a number"),
        ([70.0, math.nan], 60.0, True, "task 1: spearman nan is not a number"),
        ([70.0], math.nan, True, "task 0: spearman 70.00 is below --min-score nan"),
        ([math.nan], None, False, ""),
    ],
)
def test_only_a_number_that_is_high_enough_passes(
    scores: list[float],
    minimum: float | None,
    status: bool,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [
        Result(f"task {index}", "float32", Variant(8, "float32"), {"spearman": score})
        for index, score in enumerate(scores)
    ]
    with pytest.raises(SystemExit) as ended:
        report_results(results, "model", min_score=minimum, plot=None, as_json=False)
    assert ended.value.code is status
    assert capsys.readouterr().err == (f"{message}\n" if message else "")
