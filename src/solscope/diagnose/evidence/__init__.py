"""Checks: questions that causes ask the findings, with yes, no or "not recorded" as answers."""
