"""Many profiles: a store of Delta Lake tables, and what it says about operators and shapes.

import solscope

corpus = solscope.create_corpus("store")
solscope.add_profiles(corpus, ["traces/"])
for row in solscope.importance(corpus).rows:
    print(row.key, row.importance_pct)
"""
