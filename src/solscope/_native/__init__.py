"""The C++ scanner of Chrome traces, when it could be built; used by `readers.kineto_scanning`.

`scanner.cpp` beside this file is the whole of it. The package installs without it where there is no
compiler; the reader then uses `solscope.readers.kineto_scan`, which keeps the same contract.
"""
