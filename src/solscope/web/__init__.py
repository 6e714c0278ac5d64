"""The dashboard: a local server that shows what the library returns. It owns no analysis.

    solscope serve profiles/ results.jsonl

`library.py` lists what can be shown. `api.py` lists the endpoints and `handlers/` answers them;
`dispatch.py` takes an answer from `answer_cache.py` or calls the handler. `page.py` embeds the
answers that a view starts with, and `warm_up.py` computes them ahead of time. `guard.py` decides
whom to answer, and `app.py` puts all together. Startup imports neither Polars nor NumPy: cached
answers are served without them. starlette and uvicorn come with `solscope[web]`.
"""
