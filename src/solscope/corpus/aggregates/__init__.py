"""Sums by profile and key, made once per data file of `times`.

Questions about all profiles need few figures of each row, but have to read the texts of all of
them to know which rows belong together. A part holds what one data file says about one kind of key
(operator, kernel, ...): the names once, and sums by profile, phase and number of the name. Call
times of single profiles (`calls`) are there once for all kinds, for medians over some of them. Data
files never change under one name, so that a part stays true as long as its file is in use.
`corpus compact` stores the parts of large files in the folder `aggregates` of a store; parts of
other files are made when a question is asked. Without that folder, answers are the same.
"""
