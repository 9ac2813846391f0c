"""State of a request in progress: context, limits, admission, memory, errors."""
