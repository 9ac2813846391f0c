"""HTTP below the routes: middleware, limits, timeouts, headers, keys and error responses."""
