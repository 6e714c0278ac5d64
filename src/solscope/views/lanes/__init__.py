"""Everything that ran, along the time line: lanes of events in levels of detail.

rows.py      from an attributed profile to lanes: steps, passes, layers, idle gaps, streams, host
labels.py    what events are called, each distinct text once
levels.py    what is too short to be seen merged, level by level; ranges of one level
pack.py      columns of numbers as text that a browser turns back into typed arrays
sensors.py   samples of sensors on the same clock
ranges.py    what ran in a range of time
"""
