"""The engine: where jobs fit, and which nodes are missing.

Pure: frozen values in, frozen values out; no I/O, no clock, no logging, no `Node`. The classes that integrators hold are
handles over what is here. Every question is answered without changing anything, and the answer holds all that is needed
to act on it.
"""
