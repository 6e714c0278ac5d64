"""Both runs cut into the same unit of work, steps matched, edges dropped, noise measured."""
