"""The version of the distribution, in the one place that both the build and the program read."""

__version__ = "1.1.0"
