"""Commands for a server on a user's own machine: `embedwell service` and `embedwell local`.

They are imported when they are used; `embedwell` only names them.
"""
