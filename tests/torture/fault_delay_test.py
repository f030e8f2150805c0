#!/usr/bin/env python3
"""Each fault point is slow, once; then the oracle."""

import unittest

import fault_points

Points = fault_points.cases(["delay:300:1"], ["delay:700:3", "stop:1"])

if __name__ == "__main__":
    unittest.main()
