"""The help of `embedwell serve`, and what it says about the flags of other servers."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.cli.serve import FLAGS_OF_OTHERS
from embedwell.settings.settings import GROUPS, Settings

DOCS = Path(__file__).parents[3] / "docs"
FLAG = re.compile(r"`(--[a-z-]+)")
OURS = {f"--{name.replace('_', '-')}" for name in Settings.model_fields}


def serve(*arguments: str, status: int = 2) -> str:
    result = CliRunner().invoke(main, ["serve", *arguments], terminal_width=100)
    assert result.exit_code == status, result.output
    return result.output


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"--[a-z-]+", text))


def test_every_option_is_in_the_help_of_its_group() -> None:
    text = serve("--help", status=0)
    shown = re.findall(r"^(?:  (?:-h, )?(--[a-z-]+) |(\S.*):$)", text, re.MULTILINE)
    expected = []
    for name in Settings.model_fields:
        expected += [("", GROUPS[name])] if name in GROUPS else []
        expected += [(f"--{name.replace('_', '-')}", "")]
    assert shown == [*expected, ("", "Help"), ("--help", "")]
    assert "EMBEDWELL_PORT=9000 for --port" in text


def items(page: str, heading: str) -> list[tuple[str, str]]:
    """Return the items of the list under a heading of a page: another server's flags, and ours."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    return re.findall(r"^- (`.*?): (.*)", text.split("\n## ")[0], re.MULTILINE)


def documented() -> dict[str, str]:
    """Return the flags of other servers in the docs' lists, with what is said about ours."""
    lists = ("migrate-vllm.md", "Options"), ("migrate-infinity.md", "Options")
    rows = [row for each in (*lists, ("migrate-tei.md", "Flags")) for row in items(*each)]
    return {flag: here for flags, here in rows for flag in FLAG.findall(flags)}


@pytest.mark.parametrize(("flag", "here"), documented().items())
def test_a_flag_of_another_server_is_one_of_ours_or_answered(flag: str, here: str) -> None:
    settings = {
        f"--{name.lower().replace('_', '-')}" for name in re.findall("EMBEDWELL_(\\w+)", here)
    }
    if flag in OURS:
        assert flag in settings or not settings
        return
    answer = re.search(f"No such option '{flag}'. Here: (.*)", serve(flag, "x"))
    assert answer
    named = flags_in(answer[1])
    assert named <= settings and bool(named) == bool(settings), here


def test_every_flag_that_is_answered_is_documented_or_older() -> None:
    assert FLAGS_OF_OTHERS.keys() - documented().keys() == {"--hf-api-token"}
    assert flags_in(" ".join(FLAGS_OF_OTHERS.values())) <= OURS
    assert not FLAGS_OF_OTHERS.keys() & OURS


def test_a_misspelt_option_gets_a_similar_one() -> None:
    assert "'--port'" in serve("--prot", "9000")


def test_an_option_that_is_true_or_false_needs_a_value() -> None:
    assert "--auto-truncate true|false" in serve("--help", status=0)
    assert "requires an argument" in serve("--auto-truncate")
