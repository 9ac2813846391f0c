"""`embedwell convert`, of folders and of files of word vectors."""

import json
from pathlib import Path

from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_classic.tokenizers.words import WordTokenizer
from tests.models.classic.convert.older import contriever
from tests.models.word_files import vectors, write_text


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    return result.output


def test_convert_writes_a_folder_next_to_the_original_and_prints_its_path(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    contriever(source)
    target = tmp_path / "model-converted"
    assert run("convert", str(source)).splitlines()[-1] == str(target)
    assert json.loads(run("inspect", "--json", str(target)))["family"] == "bert"
    output = run("convert", str(source), status=1)
    assert f"Error: {target} exists already: delete it, or name another folder with -o" in output
    other = tmp_path / "new" / "other"
    assert run("convert", str(source), "-o", str(other)).splitlines()[-1] == str(other)


def test_convert_reads_a_file_of_word_vectors_with_its_options(tmp_path: Path) -> None:
    path = write_text(tmp_path / "glove.50d.txt.gz", vectors())
    assert run("convert", str(path)).splitlines()[-1] == str(tmp_path / "glove.50d-converted")
    corpus, target = tmp_path / "corpus.txt", tmp_path / "other"
    corpus.write_text("the king\nqueen", encoding="utf-8")
    options = ["--limit", "3", "--exact", "--weights", "idf", "--corpus", str(corpus)]
    assert run("convert", str(path), "-o", str(target), *options).splitlines()[-1] == str(target)
    words = WordTokenizer.read(target)
    assert len(words.vocabulary) == 3 and words.options.exact
    assert (target / "1_WordWeights").is_dir()
    output = run("convert", str(path), "-o", str(target), status=1)
    assert "other exists already" in output
    (tmp_path / "folder").mkdir()
    output = run("convert", str(tmp_path / "folder"), "--limit", "3", status=2)
    assert "--limit, --exact, --weights and --corpus need a file of word vectors" in output


def test_convert_reports_what_it_cannot_convert(tmp_path: Path) -> None:
    output = run("convert", "all-MiniLM-L6-v2", status=1)
    assert "no model 'all-MiniLM-L6-v2'; give a folder, or organisation/name on a hub" in output
    output = run("convert", str(tmp_path), status=1)
    assert "config.json is missing: not a model folder" in output
    assert not (tmp_path.parent / f"{tmp_path.name}-converted").exists()
