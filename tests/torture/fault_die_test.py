#!/usr/bin/env python3
"""Whoever passes a fault point dies there; then the oracle."""

import unittest

import fault_points

globals().update(fault_points.cases(
    "die", ["die:1"], ["die:1@1", "die:1@2", "die:1@5"]))

if __name__ == "__main__":
    unittest.main()
