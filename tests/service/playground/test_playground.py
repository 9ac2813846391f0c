"""The files of the playground, as any HTTP client sees them."""

import gzip
import hashlib
import re
from pathlib import Path

import httpx
import pytest

from embedwell import playground
from tests.service.local_server import local_server
from tests.service.server import Server

STATIC = Path(playground.__file__).parent / "static"
FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.*"))


@pytest.mark.parametrize("path", FILES)
def test_every_file_is_served_with_a_strict_policy(server: Server, path: str) -> None:
    response = server.client.get(f"/playground/{path}")
    assert response.status_code == 200
    assert response.content == (STATIC / path).read_bytes()
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


def test_the_page_has_a_script_type_that_browsers_accept(server: Server) -> None:
    script, page = server.client.get("/playground/app.js"), server.client.get("/playground")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert page.headers["content-type"] == "text/html; charset=utf-8"


def test_a_trailing_slash_leads_to_the_page(server: Server) -> None:
    response = server.client.get("/playground/", follow_redirects=True)
    assert response.url == f"{server.url}/playground"
    assert response.status_code == 200


@pytest.mark.parametrize("accept", ["text/html,application/xhtml+xml,*/*;q=0.8", "text/html"])
def test_the_root_leads_a_browser_to_the_page(server: Server, accept: str) -> None:
    for method in ("GET", "HEAD"):
        response = server.client.request(method, "/", headers={"accept": accept})
        assert (response.status_code, response.headers["location"]) == (307, "playground")
        assert response.headers["vary"] == "accept"


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_the_root_is_a_health_check_for_other_clients(server: Server, accept: str) -> None:
    response = server.client.get("/", headers={"accept": accept})
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    posted = server.client.post("/", json={"inputs": "red"}, headers={"accept": "text/html"})
    assert len(posted.json()[0]) == 384


@pytest.mark.parametrize(
    "path", ["nothing.js", "..%2f__init__.py", "%2e%2e/__init__.py", "vendor", "", "/etc/passwd"]
)
def test_nothing_but_the_files_is_served(server: Server, path: str) -> None:
    response = httpx.get(f"{server.url}/playground/{path}", timeout=120)
    assert response.status_code in (307, 404)
    assert "Path" not in response.text


def test_an_unchanged_file_is_not_sent_again(server: Server) -> None:
    etag = server.client.get("/playground/app.js").headers["etag"]
    again = server.client.get("/playground/app.js", headers={"if-none-match": etag})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_needs_no_key_though_its_requests_do(minilm_folder: Path) -> None:
    with local_server(minilm_folder, api_key="sesame") as server:
        for path in ("/playground", "/playground/app.js"):
            assert server.client.get(path).status_code == 200
        assert server.client.get("/playgroundsecrets").status_code == 401
        assert server.post("/embed", {"inputs": "red"}).status_code == 401


def test_the_page_can_be_turned_off(minilm_folder: Path) -> None:
    with local_server(minilm_folder, playground=False) as server:
        for path in ("/playground", "/playground/", "/playground/app.js"):
            assert server.client.get(path).status_code == 404
        root = server.client.get("/", headers={"accept": "text/html"})
        assert (root.status_code, root.json()["status"]) == (200, "ready")


def test_the_page_is_under_the_root_path(minilm_folder: Path) -> None:
    with local_server(minilm_folder, root_path="/vectors") as server:
        for path in ("/vectors/playground", "/playground", "/vectors/playground/app.js"):
            assert server.client.get(path).status_code == 200
        for path in ("/vectors/", "/"):
            root = server.client.get(path, headers={"accept": "text/html"})
            assert root.headers["location"] == "playground"


def test_the_page_is_not_in_the_openapi_document(server: Server) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if "playground" in path]


def test_every_library_is_listed_with_its_hash_and_its_licence() -> None:
    libraries = sorted((STATIC / "vendor").glob("*.js"))
    listed = (STATIC / "vendor/README.md").read_text(encoding="utf-8")
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in libraries}
    assert dict(re.findall(r"`([\w-]+\.js)`.*`([0-9a-f]{64})`", listed)) == hashes
    assert all(path.with_suffix(".LICENSE.txt").exists() for path in libraries)


def test_all_files_together_are_small() -> None:
    served = [name for name in FILES if name.endswith((".js", ".css", ".html", ".svg"))]
    sizes = [len(gzip.compress((STATIC / name).read_bytes())) for name in served]
    assert sum(sizes) < 400_000
