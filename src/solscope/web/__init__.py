"""The dashboard: a local server that shows what the library returns. It owns no analysis.

    solscope serve profiles/ results.jsonl

`library.py` knows what there is to show, `api.py` answers with results as JSON, `guard.py` decides
whom to answer, `app.py` puts them together. starlette and uvicorn come with `solscope[web]`.
"""
