"""Routes of decision models, and of classification by candidate labels.

A server imports it for the first request to one of these routes; `embedwell` only names it.
"""
