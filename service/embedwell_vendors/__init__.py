"""APIs of further vendors: routes that respond in a vendor's format, and fields of /v1/embeddings.

A server imports a module for the first request that needs it; `embedwell` only names it. The core
has the APIs of OpenAI, Cohere, Ollama and text-embeddings-inference.
"""
