"""Converts a folder in a process of its own: python -m models.convert SOURCE TARGET.

What goes wrong is told on standard output, and the exit status is 1.
"""

import logging
import sys
from pathlib import Path

from models.convert.folder import convert_folder
from models.errors import ModelError

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
try:
    convert_folder(Path(sys.argv[1]), Path(sys.argv[2]))
except ModelError as error:
    sys.stdout.write(f"{error}")
    sys.exit(1)
