"""One run of the evaluator: what is due, whether it is right, how long it takes, the line it gets.

`evaluate.py` leads; `agenda.py` says what is due, `correctness.py` and `timing.py` ask the workers
(`pool/`), `lines.py` writes down what came of it.
"""
