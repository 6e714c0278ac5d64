"""The C++ scanner of Chrome traces, when it could be built; `solscope.readers.kineto` is its user.

`scanner.cpp` beside this file is the whole of it. The package installs without it where there is no
compiler; the reader then uses `solscope.readers.kineto_scan`, which keeps the same contract.
"""
