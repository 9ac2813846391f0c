"""Settings: one place, three sources."""

from pathlib import Path
from typing import get_args

import pytest
from click import UsageError
from click.testing import CliRunner

from models.cpu_backend import library
from models.sentence_transformers.pooling import AUTO, MODES
from service.cli.commands import main
from service.cli.env_file import unknown_settings
from service.cli.options import read
from service.settings import Settings

FLOATS = [name for name, field in Settings.model_fields.items() if field.annotation is float]


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("EMBEDDING_PORT=1\nEMBEDDING_THREADS=1\nEMBEDDING_DTYPE=float32")
    monkeypatch.setenv("EMBEDDING_PORT", "2")
    monkeypatch.setenv("EMBEDDING_THREADS", "2")
    settings = read({"port": "3", "host": None})
    assert (settings.port, settings.threads, settings.dtype) == (3, 2, "float32")
    assert settings.host == "127.0.0.1"


def test_the_instruction_sets_are_those_of_the_kernels() -> None:
    assert get_args(Settings.model_fields["isa"].annotation) == library.CAPS


def test_every_pooling_can_be_set() -> None:
    assert set(get_args(Settings.model_fields["pooling"].annotation)) == {AUTO, *MODES}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_a_flag_with_help(name: str) -> None:
    text = CliRunner().invoke(main, ["serve", "--help"]).output
    assert f"--{name.replace('_', '-')} " in text
    assert Settings.model_fields[name].description


def test_a_wrong_value_is_told_with_its_name() -> None:
    result = CliRunner().invoke(main, ["serve", "--port", "many"])
    assert result.exit_code == 2 and "port: Input should be a valid integer" in result.output


def test_a_port_that_kubernetes_has_set_is_told_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMBEDDING_PORT", "tcp://10.0.0.1:80")
    with pytest.raises(UsageError, match=r"port: .*enableServiceLinks: false"):
        read({})


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("name", FLOATS)
def test_a_time_that_is_no_number_of_seconds_is_refused(name: str, number: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={f"EMBEDDING_{name.upper()}": number})
    assert result.exit_code == 2 and f"{name}: Input should be" in result.output


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", "1025", "less than or equal to 1024"),
        ("max_batch_tokens", "1048577", "less than or equal to 1048576"),
        ("dimensions", "9" * 5000, "should match pattern"),
        ("model", "", "at least 1 character"),
    ],
)
def test_what_no_server_can_do_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: .*{message}"):
        read({name: value})


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    settings = read({"cache": "~/models", "model": "~/models/mine"})
    assert settings.cache == Path("/somewhere/models")
    assert settings.model == "/somewhere/models/mine"


@pytest.mark.parametrize("name", ["cache", "revision", "served_name"])
def test_an_empty_value_is_the_default(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"EMBEDDING_{name.upper()}", "")
    assert getattr(Settings(), name) == getattr(Settings.model_construct(), name)


def test_a_file_that_is_no_utf_8_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes("EMBEDDING_SERVED_NAME=é".encode("latin-1"))
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 2 and ".env is no UTF-8" in result.output


@pytest.mark.parametrize(
    "line", ['EMBEDDING_API_KEY="abc', "EMBEDDING_API_KEY: abc", "EMBEDDING_API_KEY", "='abc'"]
)
def test_a_line_of_the_file_that_sets_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"# a comment\n\nEMBEDDING_PORT=0\n{line}\nOTHER=1\n")
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 2 and ".env, line 4: write NAME=value" in result.output


def test_a_file_of_comments_quotes_and_exports_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("# all\nexport EMBEDDING_PORT='9'  # one\nEMBEDDING_REVISION=\n")
    assert (read({}).port, read({}).revision) == (9, None)


@pytest.mark.parametrize("host", ["", "  "])
def test_an_empty_address_is_refused_and_is_not_every_address(host: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={"EMBEDDING_HOST": host})
    assert result.exit_code == 2 and "host: Value error, it is empty" in result.output


def test_the_key_is_hidden_when_settings_are_printed() -> None:
    assert "sesame" not in repr(Settings(api_key="sesame"))  # type: ignore[arg-type]


def test_white_space_around_the_key_is_no_part_of_it() -> None:
    assert Settings(api_key=" sesame\n").keys == ["sesame"]  # type: ignore[arg-type]


def test_there_may_be_several_keys_or_none() -> None:
    assert Settings(api_key="old, new").keys == ["old", "new"]  # type: ignore[arg-type]
    assert Settings().keys == []


@pytest.mark.parametrize("key", ["", " \n", "old,", "old, ,new"])
def test_an_empty_key_is_refused_as_it_would_protect_nothing(key: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={"EMBEDDING_API_KEY": key})
    assert result.exit_code == 2 and "api_key: Value error, a key is empty" in result.output


def test_what_looks_like_a_setting_and_is_none_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OTHER=1\nEMBEDDING_PORT=9\nEMBEDDING_HOTS=b")
    assert unknown_settings({"EMBEDDING_PROT": "1", "embedding_host": "a", "HOME": "c"}) == [
        *("EMBEDDING_HOTS", "EMBEDDING_PROT"),
    ]
    assert Settings().port == 9


def test_a_model_in_a_folder_is_called_by_the_folders_name(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    folder = str(tmp_path / "mine")
    assert Settings(model=folder).name == "mine"
    assert Settings(model=folder, served_name="other").name == "other"
    assert Settings().name == "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("/", ""),
        ("/api", "/api"),
        ("/api/", "/api"),
        ("api", "/api"),
        ("models/mini//", "/models/mini"),
    ],
)
def test_a_prefix_of_paths_begins_with_a_slash_and_ends_with_none(given: str, kept: str) -> None:
    assert Settings(root_path=given).root_path == kept


@pytest.mark.parametrize("workers", [0, -1, 257, 1_000_000])
def test_so_many_processes_are_refused_before_any_is_started(workers: int) -> None:
    with pytest.raises(ValueError, match=r"workers\n.* should be (less|greater) than or equal"):
        Settings(workers=workers)
