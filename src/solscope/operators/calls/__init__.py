"""Operator calls as profiles record them, and how operators of several files are read from them.

The rules themselves are in the operators' files (`recorded=` of each `OPERATOR`).
"""
