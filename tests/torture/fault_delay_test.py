#!/usr/bin/env python3
"""Each fault point is slow, once; then the oracle."""

import unittest

import fault_points

globals().update(fault_points.cases(
    "delay", ["delay:300:1"], ["delay:700:3"]))

if __name__ == "__main__":
    unittest.main()
