"""Facts: what is told of plans, estimates, privacy, changes and evaluations, as numbers and sentences, without layout.

Terminal, page, notebook, explorer and --summary lay facts out and compute nothing.
"""
