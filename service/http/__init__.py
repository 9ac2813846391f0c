"""HTTP itself: connections, their limits and times, headers, and what comes before any route."""
