"""A model of this process: its description, and texts without tokens or with a vector for each."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError
from embedwell_bulk.local_model import (
    LocalModel,
    LocalTokenModel,
    load_local_model,
    load_text_model,
)
from embedwell_models.embedder import Embedder
from tests.conftest import Folder
from tests.models.colbert import DOCUMENTS, WIDTH, write_colbert
from tests.models.colmodernvbert import write_colmodernvbert
from tests.models.qwen3_vl import write_qwen3_vl
from tests.models.tiny import unframed
from tests.service.bulk.jobs import read_output, run_job


def test_texts_without_tokens_are_rejected_and_the_others_embedded(tiny_bert: Folder) -> None:
    embedder = Embedder.load(unframed(tiny_bert()), device="cpu", dtype="float32")
    counts: list[int] = []
    vectors, rejected = LocalModel(embedder, "m").embed(["", " ", "work", "license"], counts.append)
    reason = "the text has no tokens, but the model needs at least one"
    assert rejected == dict.fromkeys([0, 1], reason)
    np.testing.assert_array_equal(vectors[2:], embedder.embed(["work", "license"]))
    assert sum(counts) == 4


def test_a_prompt_is_put_before_each_text_and_described(small: LocalModel) -> None:
    prompted = LocalModel(small.embedder, "m", "a copy of ")
    vectors, _ = prompted.embed(["work"], lambda _: None)
    np.testing.assert_array_equal(vectors, small.embedder.embed(["a copy of work"]))
    assert prompted.description["prompt"] == "a copy of " and small.description["prompt"] == ""


def test_the_description_names_the_fingerprint_precision_and_dimension(small: LocalModel) -> None:
    assert small.description["fingerprint"] == small.embedder.fingerprint
    assert small.description["precision"] == "float32" and small.description["dimension"] == 48


def test_an_instruction_that_leaves_no_room_ends_the_run(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    embedder, prompt = Embedder.load(tmp_path, device="cpu", dtype="float32"), "any work " * 60
    with pytest.raises(BulkError, match=r"takes all of the 128 tokens .*; shorten it"):
        LocalModel(embedder, "m", prompt).embed(["a"], lambda _: None)


def test_texts_of_a_model_with_vectors_of_tokens_are_refused(tmp_path: Path) -> None:
    write_colmodernvbert(tmp_path)
    settings = Settings(model=str(tmp_path), device="cpu", dtype="float32")
    with pytest.raises(BulkError, match="no dense vectors of texts, but vectors of tokens"):
        load_local_model(settings, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("colbert")
    write_colbert(path)
    return path / "model"


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalTokenModel:
    loaded = load_text_model(_settings(folder), None)
    assert isinstance(loaded, LocalTokenModel)
    return loaded


def _settings(folder: Path) -> Settings:
    return Settings(model=str(folder), device="cpu", dtype="float32")


def _write(path: Path, texts: list[str | None]) -> Path:
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), path)
    return path


def test_texts_have_the_vectors_of_documents(model: LocalTokenModel, tmp_path: Path) -> None:
    path = _write(tmp_path / "in.parquet", [*DOCUMENTS, DOCUMENTS[0]])
    counts = run_job(model, path, tmp_path / "out")
    assert (counts["embedded"], counts["computed"]) == (len(DOCUMENTS) + 1, len(DOCUMENTS))
    written = read_output(tmp_path / "out")["embedding"].to_pylist()
    expected = [*model.embedder.embed_tokens(DOCUMENTS), model.embedder.embed_tokens(DOCUMENTS[0])]
    for mine, theirs in zip(written, expected, strict=True):
        np.testing.assert_array_equal(np.array(mine, np.float32).reshape(-1, WIDTH), theirs)


def test_the_run_is_described_with_the_prompt_of_documents(model: LocalTokenModel) -> None:
    assert model.description["output"] == "multi" and model.dim == WIDTH
    assert model.description["prompt"] == "[unused1] "


def test_pooled_vectors_are_written_and_described(folder: Path, tmp_path: Path) -> None:
    model = load_text_model(_settings(folder), None, pool_factor=2)
    assert isinstance(model, LocalTokenModel) and model.description["pool_factor"] == 2
    run_job(model, _write(tmp_path / "in.parquet", [*DOCUMENTS]), tmp_path / "out")
    written = read_output(tmp_path / "out")["embedding"].to_pylist()
    expected = model.embedder.embed_tokens(DOCUMENTS, pool_factor=2)
    assert sum(map(len, written)) < sum(map(len, model.embedder.embed_tokens(DOCUMENTS)))
    for mine, theirs in zip(written, expected, strict=True):
        np.testing.assert_array_equal(np.array(mine, np.float32).reshape(-1, WIDTH), theirs)


def test_one_vector_of_each_text_is_not_pooled(tiny_bert: Folder) -> None:
    with pytest.raises(BulkError, match="one vector for each input; leave out --pool-factor"):
        load_text_model(_settings(tiny_bert()), None, pool_factor=2)


def test_a_text_that_is_no_text_is_left_out(model: LocalTokenModel, tmp_path: Path) -> None:
    path = _write(tmp_path / "in.parquet", ["work", None])
    counts = run_job(model, path, tmp_path / "out")
    assert (counts["embedded"], counts["errors"]) == (1, 1)


def test_a_prompt_is_refused(folder: Path) -> None:
    with pytest.raises(BulkError, match="reads documents with its own prompt; leave out --prompt"):
        load_text_model(_settings(folder), "a ")


def test_the_command_writes_a_folder_and_refuses_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("work\n")
    command = ["embed", str(tmp_path / "in.txt"), "--model", str(folder), "--dtype", "float32"]
    for name in ("out.npy", "out.jsonl"):
        refused = CliRunner().invoke(main, [*command, "-o", str(tmp_path / name)])
        assert refused.exit_code == 1 and "with / for a folder" in refused.output
        assert not (tmp_path / name).exists()
    output = ["-o", str(tmp_path / "out"), "--pool-factor", "2"]
    refused = CliRunner().invoke(main, [*command, *output, "--server", "http://localhost:1"])
    assert refused.exit_code == 2 and "leave out --pool-factor" in refused.output
    written = CliRunner().invoke(main, [*command, *output])
    assert written.exit_code == 0 and "1 text embedded" in written.output
    assert read_output(tmp_path / "out").num_rows == 1
