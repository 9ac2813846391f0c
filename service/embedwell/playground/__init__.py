"""The playground: a page that shows what the routes compute."""
