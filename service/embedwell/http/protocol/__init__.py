"""HTTP/1.1 on a connection, behind uvicorn's option `http`: parsing, limits, and ASGI.

This package alone uses uvicorn, and of uvicorn only its public parts: `Server` and `Config`. Under
another server, the application runs without this package: see `embedwell.asgi`.
"""
