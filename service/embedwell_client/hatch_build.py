"""Metadata of embedwell-client that the pyproject.toml of embedwell states for both."""

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

SHARED = ("authors", "classifiers", "keywords", "license", "requires-python", "urls")


class SharedMetadata(MetadataHookInterface):
    """Reads it in a checkout; a source distribution has it in its PKG-INFO."""

    def update(self, metadata: dict[str, Any]) -> None:
        service = Path(self.root).parent
        pyproject = (service.parent / "pyproject.toml").read_text(encoding="utf-8")
        metadata |= {name: tomllib.loads(pyproject)["project"][name] for name in SHARED}
        source = (service / "embedwell" / "__init__.py").read_text(encoding="utf-8")
        [metadata["version"]] = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
