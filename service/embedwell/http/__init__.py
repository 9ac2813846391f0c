"""HTTP before a route: the protocol, middleware, headers, keys, errors, and a request's context."""
