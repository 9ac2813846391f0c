"""The command that lists models, and the hint about prompts."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.cli.known_models import as_json, table
from embedwell.cli.machine_speed import MachineSpeed
from embedwell.cli.serve import prompts_hint
from embedwell.settings.settings import Settings
from embedwell_models.hub.known_models import known_models

E5 = "intfloat/e5-small-v2"


def test_the_models_whose_names_contain_a_text_are_listed() -> None:
    lines = CliRunner().invoke(main, ["models", "E5-Small"]).output.splitlines()
    assert [line.split()[0] for line in lines] == ["model", E5, "intfloat/multilingual-e5-small"]
    assert "33.4 M " in lines[1] and " 134 MB " in lines[1]
    assert lines[1].endswith("query, document")


def test_large_models_have_sizes_in_billions() -> None:
    output = CliRunner().invoke(main, ["models", "Qwen3-Embedding-8B"]).output
    assert " 7.57 B " in output and " 30.3 GB " in output


def test_the_list_is_printed_as_json() -> None:
    models = json.loads(CliRunner().invoke(main, ["models", "--json"]).output)
    assert list(models) == list(known_models())
    assert models[E5]["prompts"] == {"query": "query: ", "document": "passage: "}


SPEED = MachineSpeed("bfloat16", millions=(10.0, 100.0), passage=(0.01, 0.1), query=(0.001, 0.01))


def test_estimates_for_this_machine_follow_the_task() -> None:
    headings, small, _ = table("E5-Small", SPEED)
    assert headings.split()[:5] == ["model", "task", "~memory", "~passages/s", "~query"]
    assert small.split()[1:10] == ["embed", "163", "MB", "to", "210", "MB", "46", "2.2", "ms"]


def test_a_table_of_vectors_has_no_estimates() -> None:
    _, static = table("potion-base-8M", SPEED)
    assert static.split()[1:4] == ["embed", "7.6", "M"]
    assert (
        json.loads(as_json("potion-base-8M", SPEED))["minishlab/potion-base-8M"]["estimate"] is None
    )


def test_the_json_has_the_estimates_of_the_table() -> None:
    values = {"memory_mb": [163, 210], "passages_per_second": 46.0, "query_ms": 2.2}
    assert json.loads(as_json(E5, SPEED))[E5]["estimate"] == {"dtype": "bfloat16", **values}


@pytest.mark.full
def test_the_command_measures_this_machine() -> None:
    output = CliRunner().invoke(main, ["models", "--measure", "--json", E5]).output
    assert json.loads(output)[E5]["estimate"]["passages_per_second"] > 0


def test_a_hint_names_the_prompts_that_the_files_lack(tmp_path: Path) -> None:
    hint = prompts_hint(Settings(model=E5), tmp_path)
    assert hint is not None and 'query "query: ", document "passage: "' in hint
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": {}}')
    assert prompts_hint(Settings(model=E5), tmp_path) == hint


@pytest.mark.parametrize(
    ("settings", "card"),
    [
        (Settings(model="sentence-transformers/all-MiniLM-L6-v2"), "{}"),
        (Settings(model="me/mine"), "{}"),
        (Settings(model="/srv/model"), "{}"),
        (Settings(), "{}"),
        (Settings(model=E5, prompts="published"), "{}"),
        (Settings(model=E5, prompts='{"query": "q: "}'), "{}"),
        (Settings(model=E5), '{"prompts": {"query": "query: "}}'),
        (Settings(model=E5), "damaged"),
    ],
    ids=["none", "unknown", "folder", "bundled", "published", "own", "in the files", "damaged"],
)
def test_there_is_no_hint_without_a_reason(settings: Settings, card: str, tmp_path: Path) -> None:
    (tmp_path / "config_sentence_transformers.json").write_text(card)
    assert prompts_hint(settings, tmp_path) is None


@pytest.mark.parametrize("options", [[], ["--json"], ["--measure"]])
def test_a_text_without_a_match_says_how_to_ask_about_another_model(options: list[str]) -> None:
    result = CliRunner().invoke(main, ["models", "no-such-model", *options])
    assert result.exit_code == 1
    assert "no listed model has 'no-such-model' in its name" in result.output
    assert "embedwell inspect MODEL" in result.output
