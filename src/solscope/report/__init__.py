"""Renderers: a result as text, Markdown, JSON or HTML. None of them computes or prints."""
