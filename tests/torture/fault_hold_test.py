#!/usr/bin/env python3
"""A step is held while every worker goes on, then let go; then the oracle."""

import unittest

import fault_points

globals().update(fault_points.cases(
    "hold", ["hold:1"], ["hold:1@1"]))

if __name__ == "__main__":
    unittest.main()
