"""The dashboard: a local server that shows what the library returns. It owns no analysis.

    solscope serve profiles/ results.jsonl

`library.py` lists what can be shown, `api.py` lists the questions, the files `*_questions.py`
answer them, `answers.py` keeps answers, `page.py` puts those that a view begins with into its page,
`warm.py` makes them ahead, `guard.py` decides whom to answer, `app.py` puts all together. What a
start needs imports neither Polars nor NumPy: kept answers are served without them. starlette and
uvicorn come with `solscope[web]`.
"""
