"""Engine process that is likely to need torch: `python -m embedwell.launch.torch_engine_process`.

Importing torch takes seconds and 150 MB. The process that forks engines imports this module, so
that they share both.
"""

import contextlib
import importlib

from embedwell.launch.engine_process import main

with contextlib.suppress(ModuleNotFoundError):  # where torch is missing, the engine says so
    importlib.import_module("embedwell_models.torch_backend.encoder")

if __name__ == "__main__":
    main()
