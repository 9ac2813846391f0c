"""The playground: a web page that shows the results of the routes."""
