"""Description of the server that sends traces and metrics over OTLP."""

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from embedwell import __version__

NAME = "embedwell"


def server_resource() -> Resource:
    """Return the name and version of the server, and what the variables OTEL_* set."""
    variables = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": NAME, "service.version": __version__, **variables})
