"""In each process of a server, SIGUSR2 starts and ends a trace, which is written to a file.

Python imports this module in processes whose PYTHONPATH has its folder.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_PACKAGES = re.compile(r"[\\/](models|service)[\\/]embedwell\w*[\\/]")  # the core and the wings
_calls: list[str] = []  # files of the project's functions that were called, in order


def _record(frame: FrameType, event: str, _: Any) -> None:
    if event == "call" and _PACKAGES.search(frame.f_code.co_filename):
        _calls.append(frame.f_code.co_filename)


def _toggle(signal_number: int, frame: FrameType | None) -> None:
    if sys.getprofile() is None:
        _calls.clear()
        sys.setprofile(_record)
        return
    sys.setprofile(None)
    modules = sorted(name for name in sys.modules if name.partition(".")[0].startswith("embedwell"))
    path = Path(os.environ["TRACES"], str(os.getpid()))
    path.with_suffix(".part").write_text(json.dumps({"calls": _calls, "modules": modules}))
    path.with_suffix(".part").rename(path.with_suffix(".json"))


signal.signal(signal.SIGUSR2, _toggle)
