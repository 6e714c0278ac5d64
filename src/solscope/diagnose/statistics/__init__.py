"""Tests of two samples; no stage of a diagnosis, and used by all of them."""
