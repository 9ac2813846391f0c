"""Run the application with uvicorn; the only package that uses uvicorn and its private parts.

Under another server, the application runs without this package: see `embedwell.asgi`.
"""
