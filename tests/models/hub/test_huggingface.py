"""Tests of models of a hub: what is fetched of one, what of it stays, and what is told."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from embedwell_classic.convert import weights
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from tests.conftest import Folder
from tests.models import kinds
from tests.models.classic.convert.older import instructor
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.hub_server import COMMIT, Hub
from tests.service.server import Server

NAME = "organisation/name"
FILES = {
    "config.json": b"{}",
    "1_Pooling/config.json": b'{"a": 1}',
    "model.safetensors": b"weights" * 1000,
    "tokenizer.json": b"{}",
    "vocab.txt": b"a\nb\n",
    "spiece.model": b"pieces",
    "bpe.codes": b"a b 9\n",
    "artifact.metadata": b"{}",
}
OTHERS = {"pytorch_model.bin": b"a pickle", "onnx/model.onnx": b"a graph", "modeling.py": b"code"}

CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
"""Variables that name the hub's cache, before HF_HOME."""

Done = subprocess.CompletedProcess[str]
Pull = Callable[..., Done]


def run(hub: Hub, cache: Path, *command: str, **environment: str) -> Done:
    """Runs the command: the client of a hub reads its settings once in a process."""
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith(CACHES)}
    settings = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.url, "HF_HOME": str(cache / "no home")}
    return subprocess.run(
        [sys.executable, "-m", "embedwell", *command, "--cache", str(cache)],
        env={**inherited, **settings, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """Runs `embedwell pull`."""

    def pull(hub: Hub, *flags: str, **environment: str) -> Done:
        return run(hub, tmp_path, "pull", "--model", NAME, *flags, **environment)

    return pull


def found(folder: str) -> dict[str, bytes]:
    """The files of a folder that was printed."""
    root = Path(folder.strip())
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_an_image_model_needs_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/config.json").write_text("{}")
    names = ("config.json", "model.safetensors")
    files = {name: FILES[name] for name in names} | {"preprocessor_config.json": b"{ }"}
    with Hub(NAME, files | OTHERS) as hub:
        texts = str(tmp_path / "texts")
        done = run(hub, tmp_path / "cache", "pull", "--model", texts, "--image-model", NAME)
    joined = {f"image_encoder/{name}": content for name, content in files.items()}
    assert found(done.stdout) == {"config.json": b"{}", **joined}


def test_of_a_model_on_a_hub_what_is_read_is_fetched_and_no_code_or_pickle(pull: Pull) -> None:
    with Hub(NAME, FILES | OTHERS) as hub:
        done = pull(hub)
    assert done.returncode == 0, done.stderr
    assert found(done.stdout) == FILES


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx", "onnx/model_fp16.onnx"])
def test_of_a_model_in_onnx_alone_the_plain_export_is_fetched(pull: Pull, name: str) -> None:
    small = {name: content for name, content in FILES.items() if name != "model.safetensors"}
    exported = {name: b"a graph", f"{name}_data": b"weights"}
    place = name.rpartition("model")[0]
    others = {f"{place}model_quantized.onnx": b"", f"{place}decoder_model.onnx": b""}
    with Hub(NAME, {**small, **exported, **others}) as hub:
        done = pull(hub)
        assert done.returncode == 0, done.stderr
        hub.asked.clear()
        again = pull(hub)
        assert hub.asked == []
    assert found(done.stdout) == small | exported and again.stdout == done.stdout


def test_an_adapter_of_a_hub_is_joined_with_its_base_model(pull: Pull, tiny_bert: Folder) -> None:
    base = tiny_bert()
    options = {"peft_type": "LORA", "base_model_name_or_path": str(base)}
    files = {"adapter_config.json": json.dumps(options).encode(), "README.md": b"a card"}
    with Hub(NAME, files | {"adapter_model.safetensors": b"factors"}) as hub:
        done = pull(hub)
    assert done.returncode == 0, done.stderr
    joined = found(done.stdout)
    assert joined["model.safetensors"] == (base / "model.safetensors").read_bytes()
    assert joined["peft_adapter/adapter_model.safetensors"] == b"factors"


def test_of_a_model_that_has_the_sizes_of_texts_config_json_is_fetched_alone(
    tmp_path: Path,
) -> None:
    config = {"model_type": "jina_clip", "text_config": {"hf_model_name_or_path": NAME}}
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with Hub(NAME, {**FILES, "config.json": b'{"hidden_size": 64}'}) as hub:
        commands = ["pull", "--model", str(tmp_path / "model")], ["pull", "--model", NAME]
        joined, whole = (run(hub, tmp_path / "cache", *command) for command in commands)
    assert found(joined.stdout) == {
        "config.json": json.dumps(config).encode(),
        "text_config.json": b'{"hidden_size": 64}',
    }
    assert found(whole.stdout).keys() == FILES.keys(), "it is not taken for fetched before"


def test_a_model_is_fetched_once_and_its_size_is_logged(pull: Pull) -> None:
    files = FILES | {"model.safetensors": b"weights" * 100_000}
    size = sum(map(len, files.values())) / 1e6
    with Hub(NAME, files) as hub:
        first = pull(hub)
        hub.asked.clear()
        second = pull(hub)
        assert hub.asked == []
    assert f"{NAME} is being fetched" in first.stderr
    assert f"{NAME} is fetched: {len(files)} files, {size:.1f} MB, after " in first.stderr
    assert "fetched" not in second.stderr and first.stdout == second.stdout
    assert pull(hub).stdout == first.stdout  # which is gone now


def share(home: Path, *names: str) -> Path:
    """Writes files of the model as another program does, and returns their folder."""
    cache = home / "hub/models--organisation--name"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(COMMIT)
    for name in names:
        path = cache / "snapshots" / COMMIT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name])
    return cache / "snapshots" / COMMIT


def test_a_model_that_another_program_has_fetched_stays_there(pull: Pull, tmp_path: Path) -> None:
    folder = share(tmp_path / "home", *FILES)
    with Hub(NAME, FILES | OTHERS) as hub:
        first = pull(hub, HF_HOME=str(tmp_path / "home"))
        assert not any("/resolve/" in path for path in hub.asked)
        hub.asked.clear()
        second = pull(hub, HF_HOME=str(tmp_path / "home"))
        assert hub.asked == []
    assert f"{NAME} is in the cache of other programs: {folder}" in first.stderr
    assert first.stdout.strip() == second.stdout.strip() == str(folder)


def test_files_that_another_program_did_not_need_are_fetched(pull: Pull, tmp_path: Path) -> None:
    folder = share(tmp_path / "home", "config.json", "model.safetensors")
    with Hub(NAME, FILES | OTHERS) as hub:
        done = pull(hub, HF_HOME=str(tmp_path / "home"))
        assert fetched(hub) == set()
    assert done.stdout.strip() == str(folder) and found(done.stdout) == FILES


def test_offline_a_model_of_another_program_is_taken_with_a_warning(
    pull: Pull, tmp_path: Path
) -> None:
    folder = share(tmp_path / "home", *FILES)
    with Hub(NAME, FILES) as hub:
        done = pull(hub, HF_HOME=str(tmp_path / "home"), HF_HUB_OFFLINE="1")
        assert hub.asked == []
    assert done.stdout.strip() == str(folder)
    assert f"{folder} may lack files of {NAME}: HF_HUB_OFFLINE forbids to ask" in done.stderr


def test_a_hub_that_does_not_say_what_another_program_lacks_ends_the_fetch(
    pull: Pull, tmp_path: Path
) -> None:
    share(tmp_path / "home", "config.json", "model.safetensors")
    with Hub("another/name", FILES) as hub:
        done = pull(hub, HF_HOME=str(tmp_path / "home"))
    assert done.returncode == 1 and not done.stdout
    assert f"'{NAME}' could not be fetched from the hub" in done.stderr


def test_a_model_of_which_another_program_has_no_weights_is_fetched(
    pull: Pull, tmp_path: Path
) -> None:
    share(tmp_path / "home", "config.json", "tokenizer.json")
    with Hub(NAME, FILES) as hub:
        done = pull(hub, HF_HOME=str(tmp_path / "home"))
    assert found(done.stdout) == FILES
    assert (tmp_path / "home") not in Path(done.stdout.strip()).parents


def test_a_cache_of_other_programs_that_takes_no_files_is_not_used(
    pull: Pull, tmp_path: Path
) -> None:
    folder = share(tmp_path / "home", "config.json", "model.safetensors")
    (folder.parents[1] / "blobs").write_text("where the client puts files")
    with Hub(NAME, FILES) as hub:
        done = pull(hub, HF_HOME=str(tmp_path / "home"))
    assert found(done.stdout) == FILES
    assert (tmp_path / "home") not in Path(done.stdout.strip()).parents


def test_without_a_home_folder_a_model_is_fetched(pull: Pull) -> None:
    with Hub(NAME, FILES) as hub:
        done = pull(hub, HF_HUB_CACHE="~nobody-of-this-name/hub")
    assert found(done.stdout) == FILES


@pytest.mark.parametrize("revision", ["v1", COMMIT])
@pytest.mark.full
def test_a_revision_may_be_a_tag_or_a_commit(pull: Pull, revision: str) -> None:
    with Hub(NAME, FILES) as hub:
        assert found(pull(hub, "--revision", revision).stdout) == FILES


@pytest.mark.full
def test_what_was_broken_off_is_told_in_a_line_and_goes_on(pull: Pull) -> None:
    with Hub(NAME, FILES) as hub:
        hub.broken.add("model.safetensors")
        broken = pull(hub)
        assert broken.returncode == 1 and broken.stdout == ""
        last = broken.stderr.splitlines()[-1]
        assert last.startswith(f"Error: '{NAME}' could not be fetched from the hub: ")
        assert "Traceback" not in broken.stderr
        hub.broken.clear()
        assert found(pull(hub).stdout) == FILES


def test_a_model_that_is_not_public_is_had_with_a_token(pull: Pull) -> None:
    with Hub(NAME, FILES, token="sesame") as hub:
        refused = pull(hub)
        assert refused.returncode == 1
        hint = "; one that is not public needs a token in HF_TOKEN; and there is no folder "
        assert hint in refused.stderr.splitlines()[-1]
        assert found(pull(hub, HF_TOKEN="sesame").stdout) == FILES


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--revision", "v9"], "Revision Not Found"),
        (["--model", "organisation/other"], "Repository Not Found"),
    ],
)
def test_what_a_hub_does_not_have_is_told(pull: Pull, flags: list[str], told: str) -> None:
    with Hub(NAME, FILES) as hub:
        done = pull(hub, *flags)
    assert done.returncode == 1
    assert "Error: 'organisation/" in done.stderr and told in done.stderr


def test_a_model_of_a_hub_is_served_like_any_other(pull: Pull, tiny_bert: Folder) -> None:
    from embedwell_models.embedder import Embedder

    folder = tiny_bert()
    with Hub(NAME, {path.name: path.read_bytes() for path in folder.iterdir()}) as hub:
        fetched = Path(pull(hub).stdout.strip())
    one, other = (Embedder.load(each, device="cpu", dtype="float32") for each in (folder, fetched))
    assert one.fingerprint == other.fingerprint
    assert one.embed(["a text"]).tobytes() == other.embed(["a text"]).tobytes()


@pytest.fixture(scope="module")
def pickled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a model whose encoder is pickled, and whose product is safetensors, too."""
    folder = tmp_path_factory.mktemp("pickled")
    instructor(folder)
    weights.convert(folder / "2_Dense", folder / "2_Dense")
    return found(str(folder))


def fetched(hub: Hub) -> set[str]:
    """The weights that were asked for."""
    parts = (path.partition("/resolve/")[2].partition("/")[2] for path in hub.asked)
    return {part for part in parts if part.endswith((".bin", ".safetensors"))}


@pytest.mark.full
def test_a_model_without_safetensors_is_converted_once_and_has_the_vectors_of_the_original(
    pull: Pull, pickled: dict[str, bytes], tmp_path: Path
) -> None:
    from embedwell_models.embedder import Embedder

    with Hub(NAME, pickled) as hub:
        first = pull(hub)
        assert fetched(hub) == {"pytorch_model.bin", "2_Dense/model.safetensors"}
        hub.asked.clear()
        second = pull(hub)
        assert hub.asked == []
    assert first.returncode == 0, first.stderr
    assert (
        f"{NAME} has no safetensors and no tokenizer.json: converting it once, to" in first.stderr
    )
    assert first.stdout == second.stdout and "converting" not in second.stderr
    files = found(first.stdout)
    assert {"model.safetensors", "2_Dense/model.safetensors", "tokenizer.json"} <= files.keys()
    assert not any(name.endswith(".bin") for name in files)
    source = tmp_path / "source"
    for name, content in pickled.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    expected = exact_vectors(SentenceTransformer(str(source), device="cpu"), ["the license"])
    target = Path(first.stdout.strip())
    vectors = Embedder.load(target, device="cpu", dtype="float32").embed(["the license"])
    assert_near(vectors, expected)


@pytest.mark.full
def test_a_server_converts_a_model_of_a_hub_by_itself(
    pickled: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Hub(NAME, pickled) as hub:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with Server(tmp_path / "log", model=NAME, cache=tmp_path) as server:
            server.wait_ready(300)
            (vector,) = server.post("/embed", {"inputs": ["the license"]}).json()
            assert "converting it once" in server.log
    assert len(vector) == 24


@pytest.fixture
def without_extra(tmp_path: Path) -> dict[str, str]:
    """An environment in which the extra is not installed."""
    (tmp_path / "bare").mkdir()
    program = "import sys; sys.modules['transformers'] = None"
    (tmp_path / "bare" / "sitecustomize.py").write_text(program)
    paths = [str(tmp_path / "bare"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def test_a_model_in_the_format_of_another_program_alone_is_refused(
    pull: Pull, pickled: dict[str, bytes], tmp_path: Path
) -> None:
    message = "if it has only files of another format, or of ONNX without model.onnx or model_fp16"
    with Hub(NAME, {"model-Q8_0.gguf": b"GGUF", "README.md": b"# A model"}) as hub:
        refused = pull(hub)
    assert refused.returncode == 1 and f"{NAME} has no config.json; {message}" in refused.stderr
    files = {name: data for name, data in pickled.items() if name != "pytorch_model.bin"}
    with Hub(NAME, {**files, "onnx/model_quantized.onnx": b"a graph"}) as hub:
        refused = run(hub, tmp_path / "other", "convert", NAME)
        pulled = run(hub, tmp_path / "third", "pull", "--model", NAME)
    reason = f"{NAME} has neither safetensors nor pytorch_model.bin"
    assert refused.returncode == 1 and f"{reason}; {message}" in refused.stderr
    listed = f"{reason} (it has onnx/model_quantized.onnx); {message}"
    assert pulled.returncode == 1 and listed in pulled.stderr


def test_without_the_extra_the_command_is_named_and_nothing_large_fetched(
    pull: Pull, pickled: dict[str, bytes], without_extra: dict[str, str]
) -> None:
    with Hub(NAME, pickled) as hub:
        refused = pull(hub, **without_extra)
        assert "pytorch_model.bin" not in fetched(hub)
    assert refused.returncode == 1
    assert f"run `embedwell convert {NAME}` once" in refused.stderr
    assert "pip install 'transformers>=5.14' sentencepiece" in refused.stderr


@pytest.mark.full
def test_without_the_extra_the_command_converts_what_has_a_tokenizer(
    pull: Pull, pickled: dict[str, bytes], without_extra: dict[str, str], tmp_path: Path
) -> None:
    with Hub(NAME, pickled) as hub:
        refused = run(hub, tmp_path, "convert", NAME, **without_extra)
        assert (
            "has no tokenizer.json; to make one, pip install 'transformers>=5.14'" in refused.stderr
        )
    content = kinds.text("unigram").encode()
    with Hub(NAME, {**pickled, "tokenizer.json": content}) as hub:
        other = tmp_path / "other"
        done = run(hub, other, "convert", NAME, **without_extra)
        assert done.returncode == 0, done.stderr
        again = run(hub, other, "pull", "--model", NAME, **without_extra)
    assert again.stdout == done.stdout
    assert found(done.stdout)["tokenizer.json"] == content


def test_pickles_of_a_family_that_is_not_served_are_not_fetched(
    pull: Pull, pickled: dict[str, bytes]
) -> None:
    with Hub(NAME, {**pickled, "config.json": b'{"model_type": "convnext"}'}) as hub:
        refused = pull(hub)
        assert "pytorch_model.bin" not in fetched(hub)
    assert refused.returncode == 1 and "model_type = 'convnext'" in refused.stderr


def test_a_hub_out_of_reach_is_told_on_one_line(tmp_path: Path) -> None:
    message = (
        r"'organisation/name' could not be fetched from the hub: [^\n;]+; "
        "HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy; and there is "
        rf"no folder {re.escape(os.getcwd())}/organisation/name\Z"
    )
    with pytest.raises(ModelError, match=message):
        resolve(NAME, cache=tmp_path)


@pytest.mark.parametrize("name", ["organisation/na me", "organisation/a--b", "-o-/n"])
def test_a_name_that_no_hub_can_have_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=name):
        resolve(name, cache=tmp_path)
