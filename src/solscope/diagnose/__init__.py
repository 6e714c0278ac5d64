"""What changed between a normal and an abnormal run, and why.

observe      a profile becomes `Observations`: all that a diagnosis needs, small enough to keep
units        both runs cut into the same unit of work, matched, edges dropped, noise measured
decompose    the difference of step times, split into parts that add up to it exactly
findings     tests of every part and every counter, as facts that a cause can ask for
causes/      one file per cause: required, supporting and forbidden evidence
verdict      the answer
"""
