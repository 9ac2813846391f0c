"""Hooks of MkDocs (see mkdocs.yml): pages that lie outside docs/, and links to the code."""

import logging
import os.path
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.plugins.site")

ROOT = Path(__file__).parents[2]
PAGES = {  # by their files outside docs/
    "README.md": "quick-start.md",
    "deploy/README.md": "deployment.md",
    "benchmarks/README.md": "measuring.md",
    "benchmarks/RESULTS.md": "results.md",
    "deploy/gpu/README.md": "measuring-gpu.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the pages of the site, or at the repository; without its URL they are text."""
    sources = {name: source for source, name in PAGES.items()}
    folder = (ROOT / sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")).parent

    def relative(target: str) -> str:
        return os.path.relpath(target, Path(page.file.src_uri).parent)

    def resolved(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = (folder / target).resolve()
        if not path.exists():
            log.warning("%s links to %s, which is not there", page.file.src_uri, target)
            return match[0]
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("docs/") and not name.startswith("docs/build/"):
            return f"[{text}]({relative(name.removeprefix('docs/'))}{anchor})"
        if name in PAGES:
            return f"[{text}]({relative(PAGES[name])}{anchor})"
        return f"[{text}]({config.repo_url}/blob/HEAD/{name})" if config.repo_url else text

    return LINK.sub(resolved, markdown)
