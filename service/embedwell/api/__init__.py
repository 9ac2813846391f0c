"""HTTP endpoints, one module for each API, with their request bodies; responses in `schemas`."""
