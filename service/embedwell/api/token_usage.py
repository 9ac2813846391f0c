"""The tokens of a request, as OpenAI's API counts them in a response."""

from embedwell.request.request_context import RequestContext


def token_usage(context: RequestContext) -> dict[str, int]:
    """Return the tokens of a request in OpenAI's words."""
    return {"prompt_tokens": context.tokens, "total_tokens": context.tokens}
