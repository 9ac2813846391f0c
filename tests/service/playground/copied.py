"""The command and the program that a view copies for its request."""

import ast
import json
import subprocess
import sys
from typing import Any

from playwright.sync_api import Page


def copied_results(page: Page) -> tuple[Any, Any]:
    """Copy the view's first request as curl and as Python, and return what each prints."""
    results = []
    for kind, interpreter in (("curl", ["bash", "-c"]), ("Python", [sys.executable, "-c"])):
        page.get_by_role("button", name=f"Copy as {kind}").click()
        page.get_by_text(f"Copied as {kind}").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()").split("\n\ncurl ")[0]
        process = subprocess.run([*interpreter, copied], capture_output=True, check=True)
        results.append(process.stdout.decode())
    return json.loads(results[0]), ast.literal_eval(results[1].splitlines()[0])
