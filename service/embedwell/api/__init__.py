"""HTTP endpoints and request bodies, one module for each API; `schemas` has the responses."""
