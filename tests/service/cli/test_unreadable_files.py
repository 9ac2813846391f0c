"""Files and folders without the right to read them, and links to nothing: one line says which."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import COMPILED, Folder

_PROGRAM = """
import json, sys
from click.testing import CliRunner
from embedwell.cli.commands import main
results = [CliRunner().invoke(main, command) for command in json.loads(sys.argv[1])]
outputs = [result.output or repr(result.exception) for result in results]
statuses = [result.exit_code for result in results]
print(json.dumps([*zip(statuses, [output.splitlines()[-1] for output in outputs])]))
"""


def without_rights() -> list[str]:
    """Return the start of a command without root's right to read any file."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, or a user other than root")
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}"]


def run(*commands: Sequence[str | Path]) -> list[str]:
    """Return the last line of each command, all of which fail."""
    arguments = json.dumps([[*map(str, command)] for command in commands])
    command = [*without_rights(), sys.executable, "-c", _PROGRAM, arguments]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    results = json.loads(process.stdout)
    assert [status for status, _ in results] == [1] * len(results), results
    return [line for _, line in results]


def denied(path: Path) -> str:
    return f"{path} cannot be read: Permission denied"


def commands(model: Path, source: Path) -> list[list[str | Path]]:
    """Commands that read a model."""
    embed: list[str | Path] = ["embed", source, "-o", source.with_name("out.npy"), "--model", model]
    return [["inspect", model], ["info", model], embed]


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "modules.json", "1_Pooling/config.json"]
)
def test_an_unreadable_file_of_a_model_is_named(
    name: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    model, source = tiny_bert({"config_sentence_transformers.json": {}}), tmp_path / "in.txt"
    source.write_text("a\n")
    (model / name).chmod(0)
    lines = run(*commands(model, source), ["pull", model])
    assert lines == [f"Error: {denied(model / name)}"] * 4


def test_an_unreadable_folder_of_a_model_is_named(tiny_bert: Folder, tmp_path: Path) -> None:
    model, source = tiny_bert(), tmp_path / "in.txt"
    source.write_text("a\n")
    model.chmod(0)
    try:
        lines = run(*commands(model, source), ["pull", model], ["serve", model, "--port", "0"])
    finally:
        model.chmod(0o755)
    for line in lines:
        assert f"{model}" in line and line.endswith("cannot be read: Permission denied")


@pytest.mark.needs("pyarrow", "fsspec")
def test_unreadable_inputs_are_named_and_not_left_out(tiny_bert: Folder, tmp_path: Path) -> None:
    model, folder = tiny_bert(**COMPILED), tmp_path / "in"
    for name in ("a.txt", "below/b.txt", ".hidden/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a\n")
    for path in (folder / ".hidden", folder / "below"):
        path.chmod(0)
    embed: list[str | Path] = ["embed", "-o", tmp_path / "out", "--model", model]
    try:
        [line] = run([*embed, folder])
    finally:
        for path in (folder / ".hidden", folder / "below"):
            path.chmod(0o755)
    assert line == f"Error: {folder}/below cannot be listed: Permission denied"
    (folder / "a.txt").chmod(0)
    [line] = run([*embed, folder])
    assert line.startswith(f"Error: {folder}/a.txt: ") and "ermission denied" in line


def test_a_link_to_nothing_is_named(tiny_bert: Folder, tmp_path: Path) -> None:
    model, link = tiny_bert(), tmp_path / "link"
    link.symlink_to("/nowhere")
    weights = model / "model.safetensors"
    weights.unlink()
    weights.symlink_to("blob")
    first, second = run(["inspect", link], ["inspect", model])
    assert first.endswith(f"{link} is a link to /nowhere, which is missing")
    assert second == f"Error: {weights} is a link to blob, which is missing: fetch the model again"
