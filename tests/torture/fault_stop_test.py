#!/usr/bin/env python3
"""Whoever passes a fault point is stopped there, until he is dead by his
heartbeat or by the lock that he holds; then the oracle."""

import unittest

import fault_points

globals().update(fault_points.cases(
    "stop", ["stop:1"]))

if __name__ == "__main__":
    unittest.main()
