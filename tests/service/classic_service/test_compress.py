"""`embedwell compress`, of a table of word vectors."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_models.hub.sources import DEFAULT
from tests.models.word_files import vectors, write_text


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    return result.output


def test_compress_prints_bytes_and_scores_before_and_after(tmp_path: Path) -> None:
    run("convert", str(write_text(tmp_path / "a.txt", vectors())), "-o", str(tmp_path / "words"))
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("the king,the queen,4\nman,woman,3\nBerlin,x,1\n", encoding="utf-8")
    target = tmp_path / "small"
    options = ["--int8", "--dimensions", "8", "--sts", str(pairs)]
    output = run("compress", str(tmp_path / "words"), "-o", str(target), *options).splitlines()
    assert [line.split()[0] for line in output] == ["bytes", "spearman", "pearson", str(target)]
    whole, small = (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for folder in (tmp_path / "words", target)
    )
    assert output[0].split()[1:] == [f"{whole:,}", f"{small:,}", f"{small / whole:.1%}"]
    before, after, difference = map(float, output[1].split()[1:])
    assert difference == pytest.approx(after - before, abs=0.01)
    words, other = str(tmp_path / "words"), str(tmp_path / "tiers")
    run("compress", words, "-o", other, "--tiers", "4:12,rest:3", "--int8")
    assert json.loads(run("inspect", "--json", other))["parameters"] == 4 * 12 + 6 * 3 + 3 * 12 + 10
    assert "is not a list of tiers" in run("compress", words, "-o", "x", "--tiers", "4", status=1)
    both = ["--codes", "4", "--hash-rows", "5"]
    refusal = run("compress", words, "-o", "x", *both, status=1)
    assert "codes and hash rows exclude each other" in refusal
    assert "at least one option" in run("compress", "model", "-o", str(target), status=2)
    assert "not a table of vectors" in run(
        "compress", DEFAULT, "-o", str(tmp_path / "other"), "--int8", status=1
    )
