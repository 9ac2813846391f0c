"""Token count of a request in OpenAI's format."""

from embedwell.request.request_context import RequestContext


def token_usage(context: RequestContext) -> dict[str, int]:
    """Return the token count of a request in OpenAI's format."""
    return {"prompt_tokens": context.tokens, "total_tokens": context.tokens}
