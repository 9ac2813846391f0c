"""`embedwell evaluate`."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
)

from embedwell.cli.commands import main
from embedwell.cli.options import install_command
from embedwell_models.cpu_backend import library
from embedwell_models.precision.references import SENTENCES
from tests.service.commands import Done, run_commands
from tests.service.local_server import local_server
from tests.service.server import MAX_ISA, Server

pytestmark = pytest.mark.full

PAGE = Path(__file__).parents[3] / "docs" / "evaluate.md"
FLOAT32 = ("--dtype", "float32")
PAIRS = [
    ("A man plays a guitar.", "Someone plays an instrument.", 4.0),
    ("A dog runs.", "A dog is running.", 5.0),
    ("The sky is blue.", "A train left the station.", 0.2),
    ("She cooks rice.", "She eats rice.", 2.5),
]


def run(*arguments: str | Path, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["evaluate", *map(str, arguments)])
    assert result.exit_code == status, result.output
    return result.output


def run_json(*arguments: str | Path) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["evaluate", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    assert result.stderr == "", "progress is for terminals"
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in PAIRS))
    return path


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", SENTENCES), ("queries", SENTENCES[:6])):
        rows = [{"_id": f"{name}{n}", "text": text[5:]} for n, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judged = [f"queries{n}\tcorpus{(n + n % 3) % len(SENTENCES)}\t1" for n in range(6)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query\tdocument\tscore", *judged]))
    return folder


def write_unnormalized(source: Path, target: Path) -> Path:
    """A copy of a model whose last module, Normalize, was forgotten."""
    shutil.copytree(source, target)
    modules = json.loads((target / "modules.json").read_text())
    assert modules[-1]["type"].endswith("Normalize")
    (target / "modules.json").write_text(json.dumps(modules[:-1]))
    return target


def test_the_default_model_has_the_vectors_of_sentence_transformers() -> None:
    report = run_json("parity", *FLOAT32)
    assert report["num_texts"] == len(SENTENCES)
    assert report["min_cosine"] == 0.99999
    assert 0.999999 < report["least_cosine"] <= report["mean_cosine"] < 1.000001
    assert report["largest_difference"] < 1e-5


def test_a_wrong_pooling_is_found(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(SENTENCES[:6]))
    chosen = ("parity", "--texts", texts, "--limit", "3", "--pooling", "cls", *FLOAT32)
    output = run(*chosen, status=1)
    assert re.search(r"texts +3\n", output)
    assert any(f"most for the text {text!r}" in output for text in SENTENCES[:3])
    run(*chosen, "--min-cosine", "-1")


def test_a_missing_normalisation_is_found(minilm_folder: Path, tmp_path: Path) -> None:
    folder = write_unnormalized(minilm_folder, tmp_path / "model")
    chosen = ("parity", "--model", folder, "--reference", minilm_folder, *FLOAT32)
    assert "lengths differ" in run(*chosen, status=1)
    run("parity", "--model", folder, *FLOAT32)


def test_a_server_is_compared_with_the_model_that_it_should_serve(
    server: Server, minilm_folder: Path, tmp_path: Path
) -> None:
    report = run_json("parity", "--server", server.url, "--reference", "all-MiniLM-L6-v2")
    assert report["precision"] == server.client.get("/info").json()["model_dtype"]
    folder = write_unnormalized(minilm_folder, tmp_path / "model")
    with local_server(folder) as other:
        chosen = ("parity", "--server", other.url, "--reference", minilm_folder)
        assert "lengths differ" in run(*chosen, status=1)


def test_scores_are_those_of_sentence_transformers(
    minilm_folder: Path, pairs: Path, beir: Path
) -> None:
    report = run_json("tasks", "--sts", pairs, "--retrieval", beir, *FLOAT32)
    similarity, retrieval = report["results"]
    model = SentenceTransformer(str(minilm_folder), device="cpu")
    first, second, scores = zip(*PAIRS, strict=True)
    expected = EmbeddingSimilarityEvaluator(list(first), list(second), list(scores))(model)
    assert similarity["scores"]["spearman"] == pytest.approx(100 * expected["spearman_cosine"])
    assert similarity["scores"]["pearson"] == pytest.approx(
        100 * expected["pearson_cosine"], abs=1e-3
    )
    rows = {
        name: {
            row["_id"]: row["text"]
            for row in map(json.loads, (beir / f"{name}.jsonl").read_text().splitlines())
        }
        for name in ("queries", "corpus")
    }
    judged: dict[str, set[str]] = {}
    for line in (beir / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        judged.setdefault(query, set()).add(document)
    search = InformationRetrievalEvaluator(rows["queries"], rows["corpus"], judged)(model)
    assert retrieval["scores"]["ndcg@10"] == pytest.approx(100 * search["cosine_ndcg@10"])
    assert 0 < retrieval["scores"]["ndcg@10"] < 100


def test_roles_choose_the_prompts_here_and_on_a_server(
    minilm_folder: Path, tmp_path: Path, beir: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm_folder, folder)
    path = folder / "config_sentence_transformers.json"
    prompts = {"query": "Cooking: ", "document": "Cats and dogs: "}
    path.write_text(json.dumps({**json.loads(path.read_text()), "prompts": prompts}))
    chosen = ("tasks", "--retrieval", beir)
    here = run_json(*chosen, "--model", folder, *FLOAT32)
    with local_server(folder, dtype="float32") as server:
        there = run_json(*chosen, "--server", server.url)
        no_prompt = run_json(*chosen, "--server", server.url, "--prompt", "")
    assert here["results"] == there["results"]
    assert no_prompt["results"] != there["results"]
    assert run_json(*chosen, *FLOAT32)["results"] == no_prompt["results"]


def test_every_form_of_the_vectors_is_scored_and_drawn(pairs: Path, tmp_path: Path) -> None:
    page = tmp_path / "costs.html"
    forms = ("--dimensions", "64, 384", "--output-types", "float32,binary", *FLOAT32)
    output = run("tasks", "--sts", pairs, *forms, "--plot", page)
    rows = [line.split() for line in output.splitlines() if line.startswith("similarity")]
    assert [row[2:6] for row in rows] == [
        ["float32", "64", "float32", "256"],
        ["float32", "64", "binary", "8"],
        ["float32", "384", "float32", "1,536"],
        ["float32", "384", "binary", "48"],
    ]
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found is not None
    points = json.loads(found[1])["points"]
    assert len(points) == 4 and all(0 < x < 1 and 0 < y < 1 for x, y, _ in points)
    xs = {text.split()[5]: x for x, _, text in points}
    assert xs["8"] < xs["48"] < xs["256"] < xs["1,536"]


def test_precisions_are_scored_one_after_the_other(pairs: Path) -> None:
    report = run_json("tasks", "--sts", pairs, "--precisions", "float32,float32")
    assert [result["precision"] for result in report["results"]] == ["float32"] * 2


def test_baselines_are_scored_with_the_model_and_may_be_worse(pairs: Path) -> None:
    chosen = ("--baselines", "bag-of-words,n-grams", "--dimensions", "64", *FLOAT32)
    results = run_json("tasks", "--sts", pairs, *chosen, "--min-score", "50")["results"]
    rows = [(result["precision"], result["dimensions"]) for result in results]
    assert rows == [("float32", 64), ("bag-of-words", 8192), ("n-grams", 8192)]
    assert results[1]["scores"]["spearman"] < 50 < results[0]["scores"]["spearman"]


def test_a_score_that_is_too_low_is_named(pairs: Path) -> None:
    chosen = ("tasks", "--sts", pairs, *FLOAT32, "--min-score")
    assert "similarity pairs.csv: spearman" in (low := run(*chosen, "100.1", status=1))
    assert "is below --min-score 100.1" in low
    run(*chosen, "50")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("parity", "--server", "http://127.0.0.1:9"), "--server needs --reference"),
        (("tasks",), "name at least one file"),
        (("tasks", "--sts", "pairs.csv", "--plot", "costs.jpg"), "the name must end in .png"),
        (("tasks", "--sts", "pairs.csv", "--precisions", "int2"), "'int2' is not one of"),
        (("tasks", "--sts", "pairs.csv", "--dimensions", "8,x"), "'x' is not a valid integer"),
        (
            ("tasks", "--sts", "pairs.csv", "--precisions", "int8", "--server", "http://h"),
            "a server has only one precision",
        ),
        (("tasks", "--clustering", "pairs.csv"), "pairs.csv has no column"),
    ],
)
@pytest.mark.usefixtures("pairs")
def test_a_mistake_is_named_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["evaluate", *arguments, "--model", "no-such-model"])
    assert result.exit_code != 0 and problem in " ".join(result.output.split())
    assert "no-such-model" not in result.output


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("sentence_transformers", "evaluate", ("parity",)),
        ("sklearn", "evaluate", ("tasks", "--sts", "pairs.csv")),
        ("mteb", "mteb", ("mteb", "STSBenchmark")),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    pairs: Path, module: str, extra: str, arguments: tuple[str, ...]
) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from embedwell.cli.commands import main; main(['evaluate', *{arguments}])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=pairs.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"Error: {module} is not installed: {install_command(extra)}\n"


def write_sts_benchmark(folder: Path) -> Path:
    """Pairs as the data set of MTEB's task STSBenchmark, where `datasets` looks for it first."""
    path = folder / "mteb" / "stsbenchmark-sts" / "test.jsonl"
    path.parent.mkdir(parents=True)
    names = ("sentence1", "sentence2", "score")
    rows = [dict(zip(names, pair, strict=True)) for pair in PAIRS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def page_script(server: Server) -> str:
    """The shell commands of docs/evaluate.md, for a server."""
    page = PAGE.read_text(encoding="utf-8")
    _, *blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    script = "".join(blocks).replace("\\\n", "").replace("http://localhost:8080", server.url)
    if not library.best_isa("int8", library.features(MAX_ISA)):
        script = script.replace("float32,int8 ", "float32 ")
    return script


def commands_of(script: str) -> list[tuple[str, list[str]]]:
    """The subcommands of `embedwell evaluate` in a script, with their arguments."""
    found = re.findall(r"^embedwell evaluate (\w+) (.*)$", script, re.MULTILINE)
    return [(command, arguments.split()) for command, arguments in found]


def run_mteb(folder: Path, *commands: Sequence[str]) -> list[Done]:
    """Run commands in another process: mteb warns of much, and is imported for seconds."""
    all_arguments = [("evaluate", "mteb", *arguments) for arguments in commands]
    return run_commands(folder, *all_arguments, HF_HOME=str(folder / "hub"))


def test_mteb_scores_a_task_as_the_command_tasks_scores_its_file_and_names_mistakes(
    tmp_path: Path, pairs: Path, server: Server
) -> None:
    forms = ("--dimensions", "32,384", "--output-types", "float32,binary")
    source = ("--server", server.url)
    write_sts_benchmark(tmp_path)
    of_page = [words for command, words in commands_of(page_script(server)) if command == "mteb"]
    assert len(of_page) == 2
    scored = ("STSBenchmark", *source, *forms, "--json")
    done, *others = run_mteb(tmp_path, scored, *of_page, *((name,) for name in MTEB_PROBLEMS))
    for each in (done, *others[: len(of_page)]):
        assert each.returncode == 0, each.stderr
    results = json.loads(done.stdout)["results"]
    expected = run_json("tasks", "--sts", pairs, *source, *forms)["results"]
    for result, same in zip(results, expected, strict=True):
        assert result.pop("scores")["cosine_spearman"] == pytest.approx(
            same.pop("scores")["spearman"]
        )
        assert (result.pop("task"), same.pop("task")) == ("STSBenchmark", "similarity pairs.csv")
        assert result == same
    for refusal, problem in zip(others[len(of_page) :], MTEB_PROBLEMS.values(), strict=True):
        assert refusal.returncode == 1
        assert problem in refusal.stderr and "Traceback" not in refusal.stderr


MTEB_PROBLEMS = {
    "STSBenchmrk": "Did you mean: 'STSBenchmark'?",
    "NanoBEIR": "its data set cannot be read",
    "CIFAR10Clustering": "CIFAR10Clustering has inputs other than texts",
}
"""Tasks that mteb cannot run, and what is said of each."""


@pytest.mark.full
def test_the_examples_of_the_documentation_run(tmp_path: Path, server: Server) -> None:
    script = page_script(server)
    commands = commands_of(script)
    files = re.sub(r"^embedwell .*$", "", script, flags=re.MULTILINE)
    subprocess.run(["bash", "-e", "-c", files], cwd=tmp_path, check=True)
    with chdir(tmp_path):
        for command, arguments in commands:
            if command != "mteb":  # the test of mteb runs these
                run(command, *arguments)
        retrieval = run("tasks", "--retrieval", "manual", *FLOAT32)
    page = PAGE.read_text(encoding="utf-8")
    [printed] = re.findall(r"^task +precision.*\nretrieval manual .*$", page, re.MULTILINE)
    assert printed in retrieval
    assert {command for command, _ in commands} == {"parity", "tasks", "mteb"}
    assert (tmp_path / "costs.svg").stat().st_size > 1000
