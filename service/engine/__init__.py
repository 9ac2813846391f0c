"""The engine process, and how the HTTP process starts it and talks to it."""
