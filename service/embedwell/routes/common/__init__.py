"""Parts that the routes of several APIs share."""
