"""Service: reports become summary reports, once, and summary reports become measurements."""
