"""What tasks of several operators share: inputs, arithmetic of references, judgement.

A module here is not an operator; those are in `catalog/`.
"""
