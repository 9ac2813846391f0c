"""The processes of a server: bootstrap, watcher, HTTP workers."""
