"""What a page of the HTML report and of the dashboard shows: results of the library, as they are.

A page is a plain value: `kind` says which one it is, the other fields are results of views. The
front end (`frontend/`) draws it; it computes nothing that is not here.
"""
