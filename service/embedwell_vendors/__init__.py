"""Routes of other vendors' APIs that few clients send: each responds in the format of its vendor.

A server imports a module for the first request to its routes; `embedwell` only names it. The core
has the APIs of OpenAI, Cohere, Ollama and text-embeddings-inference, and the fields of other
vendors on the routes of these.
"""
