"""The engine process, and the line on which the HTTP processes talk to it."""
