"""The application for Ray Serve: `serve run embedwell_bulk.ray.serve:build dtype=bfloat16 cpus=4`.

Each replica has an engine of its own. Serve adds and removes replicas by their queued work.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Self

import httpx
from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from starlette.types import ASGIApp

from embedwell.asgi import create
from embedwell_bulk.ray.actor_settings import actor_defaults, check_names
from embedwell_bulk.ray.autoscaling import LoadMeter, LoadPolicy

_MAX_REQUESTS = 1000  # requests of a replica, whose engine batches them, or rejects them with 429
_STOP_SECONDS = 65.0  # seconds for the requests of a replica that is removed
_READY_INTERVAL = 0.1  # seconds


class Arguments(BaseModel):
    """Arguments of a deployment; any others are settings of the server, such as model.

    cpus, gpus: resources of each replica.
    wait, utilization: see LoadPolicy.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    min_replicas: PositiveInt = 1
    max_replicas: PositiveInt = 10
    cpus: PositiveInt = 1
    gpus: NonNegativeInt = 0
    wait: PositiveFloat = 0.5
    utilization: PositiveFloat = 0.7

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        check_names(self.model_extra or {})
        return self


@serve.deployment(
    name="embedwell",
    max_ongoing_requests=_MAX_REQUESTS,
    graceful_shutdown_timeout_s=_STOP_SECONDS,
    logging_config={"enable_access_log": False},  # a line for each request
)
@serve.ingress()
class EmbeddingServer:
    """A replica.

    settings: settings of the server, besides EMBEDWELL_* of its environment.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = {**actor_defaults(), **settings}
        self._load, self._was_ready = LoadMeter(), False

    def __serve_build_asgi_app__(self) -> ASGIApp:
        try:
            app = create(**self._settings)
        except SystemExit as error:  # it would end Serve's thread silently
            raise RuntimeError(str(error)) from None
        transport = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        return app

    async def check_health(self) -> None:
        """Wait for the model at the first call, so that Serve sends no request before."""
        while not self._was_ready:
            self._was_ready = (await self._client.get("/ready")).is_success
            await asyncio.sleep(_READY_INTERVAL)

    async def record_autoscaling_stats(self) -> Mapping[str, float]:
        """Return the load since the last call."""
        return self._load.read((await self._client.get("/metrics")).text)


def build(arguments: Arguments) -> serve.Application:
    """Build the application for `serve run`, with replicas by the load."""
    policy = AutoscalingPolicy(  # type: ignore[no-untyped-call]
        policy_function=LoadPolicy,
        policy_kwargs={"wait": arguments.wait, "utilization": arguments.utilization},
    )
    autoscaling = AutoscalingConfig(
        min_replicas=arguments.min_replicas,
        max_replicas=arguments.max_replicas,
        upscale_delay_s=0,
        downscale_delay_s=0,  # LoadPolicy delays the removal itself
        metrics_interval_s=1,
        look_back_period_s=2,
        policy=policy,
    )
    server: serve.Deployment = EmbeddingServer  # type: ignore[assignment]
    deployment = server.options(
        autoscaling_config=autoscaling,
        ray_actor_options={"num_cpus": arguments.cpus, "num_gpus": arguments.gpus},
    )
    return deployment.bind(arguments.model_extra)
