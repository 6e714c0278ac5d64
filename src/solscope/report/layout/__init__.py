"""How parts of a report become text: lines, tables, sparklines; for a terminal or as Markdown."""
