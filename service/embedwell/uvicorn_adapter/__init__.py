"""How `serve` runs the application: the one package that uses uvicorn, also its private parts.

The application is the same under another server, without what is here: see `embedwell.asgi`.
"""
