"""The format of log messages, the same in all processes."""

import logging


def configure_logging(level: str) -> None:
    """Log messages of `level` and above to standard error."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
