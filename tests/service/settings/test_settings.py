"""Settings: one place, three sources."""

from pathlib import Path
from typing import get_args

import pytest
from click import UsageError
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.cli.options import read, settings_of_tei, unknown_settings
from embedwell.settings.model_settings import model_settings
from embedwell.settings.settings import Settings
from embedwell_models.config.model_options import (
    AUTO,
    DEFAULT_OPTIONS,
    MODES,
    RERANK_CHOICES,
    ModelOptions,
)
from embedwell_models.cpu_backend import library
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.model_files.pooling import SPLADE

FLOATS = [name for name, field in Settings.model_fields.items() if field.annotation is float]


def test_flags_override_the_environment_which_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("EMBEDWELL_PORT=1\nEMBEDWELL_THREADS=1\nEMBEDWELL_DTYPE=float32")
    monkeypatch.setenv("EMBEDWELL_PORT", "2")
    monkeypatch.setenv("EMBEDWELL_THREADS", "2")
    settings = read({"port": "3", "host": None})
    assert (settings.port, settings.threads, settings.dtype) == (3, 2, "float32")
    assert settings.host == "127.0.0.1"


def test_each_option_of_a_model_is_a_setting_with_the_same_default() -> None:
    assert Settings().options == DEFAULT_OPTIONS
    assert Settings(dtype="int8", threads=3).options == ModelOptions(dtype="int8", threads=3)


def test_the_instruction_sets_are_those_of_the_kernels() -> None:
    assert get_args(Settings.model_fields["isa"].annotation) == library.CAPS


def test_every_pooling_can_be_set() -> None:
    assert set(get_args(Settings.model_fields["pooling"].annotation)) == {AUTO, SPLADE, *MODES}


def test_every_format_of_rerankers_can_be_set() -> None:
    assert set(get_args(Settings.model_fields["rerank_format"].annotation)) == {*RERANK_CHOICES}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_a_flag_with_help(name: str) -> None:
    text = CliRunner().invoke(main, ["serve", "--help"]).output
    assert f"--{name.replace('_', '-')} " in text
    assert Settings.model_fields[name].description


@pytest.mark.parametrize("text", ["query: ", "[1]", '{"query": 1}', '"published"'])
def test_prompts_that_are_no_object_of_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give published, or a JSON object of names and texts"):
        read({"prompts": text})


def test_the_error_of_an_invalid_value_names_the_setting() -> None:
    result = CliRunner().invoke(main, ["serve", "--port", "many"])
    assert result.exit_code == 2 and "--port: 'many': not a port; give" in result.output


def test_the_error_names_the_variable_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("EMBEDWELL_PORT=abc\n")
    with pytest.raises(UsageError, match=r"^EMBEDWELL_PORT in \./\.env: 'abc': not a port"):
        read({"host": "::1"})
    monkeypatch.setenv("EMBEDWELL_THREADS", "two")
    with pytest.raises(UsageError) as raised:
        read({"host": ""})
    first, second, third = sorted(str(raised.value).splitlines())
    assert (
        first == "--host: '': an address is missing; give one, such as 127.0.0.1, or leave it out"
    )
    assert second == "EMBEDWELL_PORT in ./.env: 'abc': " + second.split(": ")[-1]
    assert third.startswith("EMBEDWELL_THREADS in the environment: 'two': Input should be")


def test_an_unknown_model_of_a_file_is_reported_with_the_variable_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("EMBEDWELL_MODEL=text-embedding-3-small\n")
    result = CliRunner().invoke(main, ["inspect"])
    message = "Error: EMBEDWELL_MODEL in ./.env: no model 'text-embedding-3-small': give a folder"
    assert result.exit_code == 1 and message in result.output
    result = CliRunner().invoke(main, ["inspect", "other"])
    assert result.exit_code == 1 and "Error: no model 'other'" in result.output


def test_settings_of_other_programs_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("EMBEDDING_MODEL=text-embedding-3-small\nPORT=1\n")
    settings = read({})
    assert (settings.model, settings.port) == (DEFAULT, 8080)


def test_the_value_of_a_secret_is_not_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDWELL_API_KEY", "sesame,")
    with pytest.raises(UsageError) as raised:
        read({})
    assert "sesame" not in str(raised.value)
    assert str(raised.value).startswith("EMBEDWELL_API_KEY in the environment: a key is empty")


def test_the_error_of_a_port_set_by_kubernetes_has_a_solution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMBEDWELL_PORT", "tcp://10.0.0.1:80")
    with pytest.raises(UsageError, match=r"EMBEDWELL_PORT in .*enableServiceLinks: false"):
        read({})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("900", 900), ("15m", 900), ("1.5h", 5400), ("1d", 86400), ("none", 0), ("0", 0)],
)
def test_the_time_until_the_exit_may_have_a_unit(text: str, seconds: float) -> None:
    assert read({"idle_exit": text}).idle_exit == seconds
    with pytest.raises(UsageError, match="give seconds, or a number with s, m, h or d"):
        read({"idle_exit": f"{text} minutes"})


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("name", FLOATS)
def test_infinite_and_nan_times_are_refused(name: str, number: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={f"EMBEDWELL_{name.upper()}": number})
    assert (
        result.exit_code == 2
        and f"EMBEDWELL_{name.upper()} in the environment: '{number}': Input should be"
        in result.output
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", "1025", "less than or equal to 1024"),
        ("max_batch_tokens", "1048577", "less than or equal to 1048576"),
        ("dimensions", "9" * 5000, "should match pattern"),
        ("model", "", "at least 1 character"),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}: .*{message}"):
        read({name: value})


def test_a_tilde_in_a_path_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    settings = read({"cache": "~/models", "model": "~/models/mine"})
    assert settings.cache == Path("/somewhere/models")
    assert settings.model == "/somewhere/models/mine"
    settings = read({"models_file": "~/m.toml", "batch_folder": "~/batches"})
    assert settings.models_file == Path("/somewhere/m.toml")
    assert settings.batch_folder == Path("/somewhere/batches")
    [mine] = model_settings(read({"models": "mine=~/models/mine"}))
    assert mine.model == "/somewhere/models/mine"


@pytest.mark.parametrize("name", ["cache", "revision", "served_name"])
def test_an_empty_value_is_the_default(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"EMBEDWELL_{name.upper()}", "")
    assert getattr(read({}), name) == getattr(Settings.model_construct(), name)


def test_variables_of_tei_are_named_unless_ours_is_set() -> None:
    theirs = {"MODEL_ID": "BAAI/bge-m3", "API_KEY": "secret", "PORT": "80"}
    pairs = [("MODEL_ID", "EMBEDWELL_MODEL"), ("API_KEY", "EMBEDWELL_API_KEY")]
    assert settings_of_tei(theirs, read({})) == pairs
    assert settings_of_tei(theirs, read({"api_key": "mine"})) == pairs[:1]
    assert settings_of_tei({}, read({})) == []


def test_an_env_file_whose_first_setting_a_byte_order_mark_would_hide_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("EMBEDWELL_API_KEY=secret", encoding="utf-8-sig")
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 2
    assert "./.env begins with a byte order mark (BOM), so that its first" in result.output
    assert "save it as UTF-8 without BOM" in result.output


def test_an_env_file_that_is_not_utf_8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes("EMBEDWELL_SERVED_NAME=é".encode("latin-1"))
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 2 and ".env is not UTF-8" in result.output


@pytest.mark.parametrize(
    "line", ['EMBEDWELL_API_KEY="abc', "EMBEDWELL_API_KEY: abc", "EMBEDWELL_API_KEY", "='abc'"]
)
def test_an_invalid_line_of_the_env_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"# a comment\n\nEMBEDWELL_PORT=0\n{line}\nOTHER=1\n")
    result = CliRunner().invoke(main, ["serve"])
    assert result.exit_code == 2 and ".env, line 4: write NAME=value" in result.output


def test_the_env_file_may_have_comments_quotes_and_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("# all\nexport EMBEDWELL_PORT='9'  # one\nEMBEDWELL_REVISION=\n")
    assert (read({}).port, read({}).revision) == (9, None)


def test_the_env_file_may_have_variables_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (
        *("FOLDER=/models", 'EMBEDWELL_MODEL="${FOLDER}/mine"', "EMBEDWELL_REVISION=a#b # c"),
        *('EMBEDWELL_PROMPTS=\'{"query": "query: "}\'\r', "EMBEDWELL_SERVED_NAME=${NONE:-x}$y"),
    )
    (tmp_path / ".env").write_text("\n".join(lines), newline="")
    settings = read({})
    assert (settings.model, settings.revision) == ("/models/mine", "a#b")
    assert (settings.prompts, settings.served_name) == ('{"query": "query: "}', "x$y")


def test_an_env_file_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").symlink_to("/proc/self/mem")  # a regular file whose first byte is unmapped
    with pytest.raises(UsageError, match=r"^\./\.env cannot be read: Input/output error"):
        read({})


def test_a_field_that_is_no_setting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"prot\n.*not permitted"):
        Settings(prot=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("host", ["", "  "])
def test_an_empty_host_is_refused(host: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={"EMBEDWELL_HOST": host})
    assert result.exit_code == 2 and "EMBEDWELL_HOST in the environment: " in result.output


def test_the_key_is_not_in_the_repr_of_the_settings() -> None:
    assert "sesame" not in repr(Settings(api_key="sesame"))  # type: ignore[arg-type]


def test_white_space_around_the_key_is_stripped() -> None:
    assert Settings(api_key=" sesame\n").keys == ["sesame"]  # type: ignore[arg-type]


def test_there_may_be_no_key_or_several() -> None:
    assert Settings(api_key="old, new").keys == ["old", "new"]  # type: ignore[arg-type]
    assert Settings().keys == []


@pytest.mark.parametrize("key", ["", " \n", "old,", "old, ,new"])
def test_an_empty_key_is_refused(key: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={"EMBEDWELL_API_KEY": key})
    assert result.exit_code == 2 and ": a key is empty" in result.output


def test_unknown_variables_with_the_prefix_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OTHER=1\nEMBEDWELL_PORT=9\nEMBEDWELL_HOTS=b")
    assert unknown_settings({"EMBEDWELL_PROT": "1", "embedding_host": "a", "HOME": "c"}) == [
        *("EMBEDWELL_HOTS", "EMBEDWELL_PROT"),
    ]
    assert read({}).port == 9


def test_the_default_name_of_a_model_in_a_folder_is_that_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    folder = str(tmp_path / "mine")
    assert Settings(model=folder).name == "mine"
    assert Settings(model=folder, served_name="other").name == "other"
    assert Settings().name == "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("value", "normalized"),
    [
        ("", ""),
        ("/", ""),
        ("/api", "/api"),
        ("/api/", "/api"),
        ("api", "/api"),
        ("models/mini//", "/models/mini"),
    ],
)
def test_the_root_path_is_normalized(value: str, normalized: str) -> None:
    assert Settings(root_path=value).root_path == normalized


@pytest.mark.parametrize("workers", [-1, 257, 1_000_000])
def test_numbers_of_workers_out_of_range_are_refused(workers: int) -> None:
    with pytest.raises(ValueError, match=r"workers\n.* should be (less|greater) than or equal"):
        Settings(workers=workers)
