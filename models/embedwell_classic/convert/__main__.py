"""Conversion of a model folder: python -m embedwell_classic.convert SOURCE TARGET.

After an error, the message is on standard output and the exit status is 1.
"""

import logging
import sys
from pathlib import Path

from embedwell_classic.convert.model import convert_folder
from embedwell_models.errors import ModelError

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
try:
    convert_folder(Path(sys.argv[1]), Path(sys.argv[2]))
except ModelError as error:
    sys.stdout.write(f"{error}")
    sys.exit(1)
