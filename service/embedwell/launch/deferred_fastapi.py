"""Import FastAPI so that a model of its OpenAPI document is built by its first use.

They take a fifth of the imports of an HTTP process, and most servers never use them. The process
imports this module before the others that import FastAPI.
"""

from pydantic import BaseModel, ConfigDict

_before = BaseModel.model_config
BaseModel.model_config = ConfigDict(defer_build=True)  # which classes inherit when they are defined
try:
    import fastapi  # noqa: F401
finally:
    BaseModel.model_config = _before
