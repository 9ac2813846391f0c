"""What a request is while it is served: its context, limits, admission, memory, errors."""
