"""Settings of several models: from flags, the environment and a file."""

from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.cli.options import read_models
from embedwell.settings.model_settings import model_settings
from embedwell.settings.settings import Settings


def settings(**values: Any) -> Settings:
    return Settings(**values)


def written(folder: Path, text: str) -> Path:
    path = folder / "models.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_single_model_has_the_settings_of_the_server() -> None:
    one = settings(model="org/name", served_name="a,*", revision="v1")
    assert model_settings(one) == [one]


def test_each_model_has_its_source_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDWELL_MODELS", "a=org/one, b = /models/two ,")
    monkeypatch.setenv("EMBEDWELL_MODEL", "of-an-image")
    _, models = read_models({"dtype": "float32"})
    assert [(m.name, m.names, m.model) for m in models] == [
        ("a", ["a"], "org/one"),
        ("b", ["b"], "/models/two"),
    ]
    assert {m.dtype for m in models} == {"float32"}


def test_a_file_gives_each_model_options_of_its_own(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [small]
        source = "org/small"
        dtype = "float32"
        ["org/large"]
        source = "org/large"
        revision = "abc"
        keep = "on_demand"
        idle_unload = 300
        pooling = "cls"
        device = "cuda:1"
        max_batch_tokens = 4096
        """,
    )
    small, large, third = model_settings(settings(models_file=file, models="c=d", threads=2))
    assert (small.name, small.model, small.dtype, small.keep) == (
        *("small", "org/small", "float32", "always"),
    )
    assert (large.name, large.revision, large.keep, large.idle_unload) == (
        *("org/large", "abc", "on_demand", 300),
    )
    assert (large.pooling, large.device, large.max_batch_tokens) == ("cls", "cuda:1", 4096)
    assert (large.dtype, large.threads, third.name) == ("auto", 2, "c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a]\nsource = 'x'\nkeeps = 1", r"\[a\] has keeps; its options are source, revision"),
        ("[a]\ndtype = 'int8'", r"\[a\] has no source"),
        ("[a]\nsource = 'x'\ndtype = 'int2'", "model a: dtype: Input should be 'auto', 'float32'"),
        ("[a]\nsource = 'x'\nidle_unload = -1", "model a: idle_unload: Input should be greater"),
        ("[a]\nsource = 'x'\nprompts = 'y'", "model a: prompts: give published, or a JSON object"),
        ("[a]\nsource = ''", "model a: source: String should have at least 1 character"),
        ("a = 'x'", r"a is not a table: begin it with \[a\]"),
        ("[a\n", "models.toml: "),
        ("", "has no tables"),
        ("['a,b']\nsource = 'x'", "'a,b' is not a name of a model"),
        ("['*']\nsource = 'x'", r"'\*' is not a name of a model"),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_settings(settings(models_file=written(tmp_path, text)))


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('[small]\nsource = "there"\n', encoding="utf-8-sig")
    [model] = model_settings(Settings(models_file=path))
    assert (model.served_name, model.model) == ("small", "there")


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"models_file: .*No such file"):
        model_settings(settings(models_file=tmp_path / "none.toml"))


@pytest.mark.parametrize("models", ["a=x,a=y", "a=x,b=y,a=z"])
def test_two_models_of_one_name_are_refused(models: str) -> None:
    with pytest.raises(ValueError, match="two are named 'a'"):
        model_settings(settings(models=models))


@pytest.mark.parametrize("models", ["a", "=x", "a=", "a=x,b", " =x"])
def test_each_needs_a_name_and_a_source(models: str) -> None:
    with pytest.raises(ValueError, match="is not NAME=SOURCE"):
        settings(models=models)


@pytest.mark.parametrize("name", ["served_name", "revision", "image_model"])
def test_settings_of_a_single_model_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} applies to a single model"):
        model_settings(settings(models="a=x", **{name: "y"}))


def test_the_flag_of_a_model_may_be_repeated() -> None:
    _, models = read_models({"model": ("a=x", "b=y=z")})
    assert [(m.name, m.model) for m in models] == [("a", "x"), ("b", "y=z")]


def test_models_may_be_arguments_and_flags() -> None:
    _, models = read_models({"named": ("a=x", "b=y"), "model": ("c=z",)})
    assert [(m.name, m.model) for m in models] == [("a", "x"), ("b", "y"), ("c", "z")]


def test_a_model_may_be_an_argument() -> None:
    [one] = read_models({"named": ("org/name",)})[1]
    assert (one.model, one.name) == ("org/name", "org/name")


def test_a_plain_flag_is_the_only_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EMBEDWELL_MODELS", "a=x")
    monkeypatch.setenv("EMBEDWELL_MODELS_FILE", str(written(tmp_path, "[b]\nsource = 'y'")))
    folder = tmp_path / "a=b"
    folder.mkdir()
    for source, name in (("org/name", "org/name"), (str(folder), "a=b")):
        [one] = read_models({"model": (source,)})[1]
        assert (one.model, one.name) == (source, name)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"model": ("x", "y")}, "y: with several models, give each as NAME=SOURCE"),
        ({"model": ("a=x", "y")}, "y: with several models"),
        ({"named": ("x",), "model": ("y",)}, "y: with several models"),
        ({"model": ("a=x", "a=y")}, "two are named 'a'"),
        ({"model": ("a=x",), "models": "b=y"}, "not both"),
        ({"named": ("x",), "models": "a=y"}, "give x, or --models, not both"),
        ({"model": ("x",), "models_file": "m.toml"}, "give x, or --models-file, not both"),
        ({"model": ("=x",)}, "is not NAME=SOURCE"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_models(flags)


def test_a_mistake_ends_the_command_with_a_message(tmp_path: Path) -> None:
    file = written(tmp_path, "[a]\nsurce = 'x'")
    result = CliRunner().invoke(main, ["serve", "--models-file", str(file)])
    assert result.exit_code == 2 and "[a] has surce; its options are source" in result.output


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"device": "cpu"}, "device"),
        ({"models": "a=b,c=d"}, "models"),
        ({"models_file": Path("models.toml")}, "models_file"),
        ({"idle_unload": 9}, "idle_unload"),
        ({"max_model_bytes": 9}, "max_model_bytes"),
        ({"keep": "on_demand"}, "keep"),
        ({"adapter": "a,b"}, "adapters"),
        ({"adapter": "all"}, "adapters"),
    ],
)
def test_what_needs_one_device_is_refused_with_several(other: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"^devices: .*{named}"):
        model_settings(settings(devices="cuda:0,cuda:1", **other))
