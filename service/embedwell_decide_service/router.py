"""All routes of this package."""

from fastapi import APIRouter

from embedwell.routes.common.model_registry import ModelRegistry
from embedwell_decide_service import decisions, system_one, zero_shot


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes of decisions, and of classification by candidate labels."""
    parts = (decisions, system_one, zero_shot)
    return APIRouter(routes=[route for part in parts for route in part.router(registry).routes])
