"""Renderers: each takes a result of `views/` and returns text. None of them computes or prints."""
