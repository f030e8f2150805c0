#!/usr/bin/env python3
"""The operation at each fault point fails once; then the oracle."""

import unittest

import fault_points

globals().update(fault_points.cases(
    "fail", ["fail:5:1", "fail:28:1"], ["fail:5:2@1", "fail:28:4"]))

if __name__ == "__main__":
    unittest.main()
