"""Workers as the evaluator sees them: processes, the memory shared with them, and their inputs.

`slot.py` holds one candidate in one worker, `spawner.py` starts workers, `process.py` talks to one,
`arena.py` and `inputs.py` are the memory that both sides map. What runs in a worker is in
`worker/`.
"""
