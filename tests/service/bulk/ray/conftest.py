"""Fixtures of Ray's tests."""

from tests.service.bulk.conftest import small

__all__ = ["small"]
