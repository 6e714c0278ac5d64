"""Loops in C++, where they could be built; without a compiler the package installs without them.

* `scanner.cpp`: the scanner of Chrome traces, used by `readers.kineto_scanning`. Its twin is
  `readers.kineto_scan`, which keeps the same contract.
* `nesting.cpp`: which interval is around each one, used by `intervals`, which has a twin in NumPy.
* `slack.cpp`: how much later each activity could end, used by `views.slack`, which has a twin.
"""
