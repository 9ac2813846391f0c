"""One line for each log message, alike in all processes."""

import logging


def configure_logging(level: str) -> None:
    """Send everything from `level` up to standard error."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
