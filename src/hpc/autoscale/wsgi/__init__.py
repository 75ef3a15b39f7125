"""Listening: a WSGI application behind an HTTP server on werkzeug, with or without TLS.

The simulator and `azscale serve_autostop` use it. It knows no application.
"""
