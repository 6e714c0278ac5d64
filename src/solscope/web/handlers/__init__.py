"""One handler per endpoint of the JSON API, by what it is about. `web/api.py` lists them.

A handler takes the library and the query, and returns the struct that becomes the answer.
"""
